"""Functions of Rec SDK's API that are not in ``ascpipe.tf``, and stand-ins for packages of Ascend servers."""
