"""Functions of Rec SDK's API that ``ascpipe.tf`` does not have, and stand-ins for packages of Ascend servers."""
