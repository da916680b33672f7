"""Functions of Rec SDK's API that no other package contains, and stand-ins for packages of Ascend servers."""
