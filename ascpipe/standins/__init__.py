"""Stand-ins for packages of an Ascend server.

``ascpipe run`` puts this folder last on the path of the program that it runs, so that ``import npu_bridge`` finds the
real package where it is installed and this one elsewhere. Nothing else imports from here.
"""
