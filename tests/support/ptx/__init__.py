"""The synchronisation of a PTX kernel, as a profile that can be compared: who executes which instruction, how often."""

from tests.support.ptx.profile import Profile, Row, profile, profiles

__all__ = ["Profile", "Row", "profile", "profiles"]
