"""The commands, a module for each subject."""
