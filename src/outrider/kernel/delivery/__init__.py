"""From a claimed job to answers of a gateway: draft, reserve, call, close."""
