"""The exit codes of syncopate that its scripts also use."""
USAGE = 64
BAD_INPUT = 65
INPUT_MISSING = 66
UNAVAILABLE = 69
INTERNAL = 70
CANNOT_CREATE = 73
IO_ERROR = 74
