"""Settings: the only package that reads the environment and configuration files.

The first that names a value wins: command line, `SANDBOX_SKILLS_*` variables, the configuration file, the
default. The file is the one that `--config` names, else `SANDBOX_SKILLS_CONFIG`, else `settings.yaml` in the
user's configuration directory. Nothing is picked up from the current directory: a cloned repository is not
the user's word. `config/settings.yaml` shows every setting with its reason.
"""

from sandbox_skills.settings.docker_connection import docker_connection
from sandbox_skills.settings.environment import (
    caller_environment,
    current_directory,
    is_ci,
    job_summary_file,
    outside_of_git_hooks,
    read_env_file,
)
from sandbox_skills.settings.load import load_settings
from sandbox_skills.settings.model import DockerSettings, Settings, default_data_dir, setting_names
from sandbox_skills.settings.secrets import secret_values
from sandbox_skills.settings.sources import user_config_file

__all__ = [
    "DockerSettings",
    "Settings",
    "caller_environment",
    "current_directory",
    "default_data_dir",
    "docker_connection",
    "is_ci",
    "job_summary_file",
    "load_settings",
    "outside_of_git_hooks",
    "read_env_file",
    "secret_values",
    "setting_names",
    "user_config_file",
]
