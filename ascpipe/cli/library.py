"""Command ``ascpipe library``. It prints the path of the TensorFlow op library."""
import click


@click.command("library", help="Print the path of the op library, for tf.load_op_library.")
def command() -> None:
    """Print the path of the library, which is the only file of ascpipe that a program needs to serve a SavedModel."""
    from ascpipe.tfops import load

    click.echo(load.library_path())
