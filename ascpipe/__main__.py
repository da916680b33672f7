"""Entry point of ``python -m ascpipe``, which runs the command line."""
from ascpipe.cli.main import main

if __name__ == "__main__":
    main()
