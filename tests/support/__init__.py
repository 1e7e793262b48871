"""What tests are written with: servers, witnesses, deployments, databases, scenes, waiting."""
