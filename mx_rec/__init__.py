"""Import paths of the Rec SDK, on top of ``ascpipe.tf``: re-exports and argument translation only."""
