"""`python -m outrider` is `outrider`."""

from outrider.cli.app import main

main()
