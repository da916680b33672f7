"""Command ``ascpipe library``, which prints the path of the TensorFlow op library."""
import click


@click.command("library", help="Print the path of the op library, for tf.load_op_library.")
def command() -> None:
    """Print the path of the op library. To serve a SavedModel, a program needs no other file of ascpipe."""
    from ascpipe.tfops import load

    click.echo(load.library_path())
