"""A click model in the Criteo format, trained through ascpipe; see README.md beside this file."""
