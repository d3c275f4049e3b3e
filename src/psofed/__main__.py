"""`python -m psofed` is `psofed`."""

from psofed.cli.main import main

if __name__ == "__main__":
    main()
