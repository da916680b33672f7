"""Click model in the Criteo format, trained with ascpipe. See README.md in this folder."""
