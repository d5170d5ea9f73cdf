"""The names of settings for users of functions and of programs."""

# Arguments of the predictors that have another name elsewhere.
_ARGUMENTS = {"config_file": "bert_config_file"}


def setting_name(setting: str) -> str:
    """Returns the name of a setting for the caller of a function that does what a program does."""
    return _ARGUMENTS.get(setting, setting)


def flag_name(setting: str) -> str:
    """Returns the name of a setting for the user of a program."""
    return "--" + setting_name(setting)
