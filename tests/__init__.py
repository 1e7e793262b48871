"""The tests, in the rooms of ARCHITECTURE.md's section on them."""

from tests.support.installed_once import remember_what_is_installed

remember_what_is_installed()
