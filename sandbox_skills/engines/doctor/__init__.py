"""What holds on a host and what does not, with the fix for each fault. `gather` looks; the rest judges, pure."""

from sandbox_skills.engines.doctor.checks import Check, State, shortfalls, worst
from sandbox_skills.engines.doctor.gather import DoctorOptions, documented, examine

__all__ = ["Check", "DoctorOptions", "State", "documented", "examine", "shortfalls", "worst"]
