"""``ascpipe library``: prints the path of the TensorFlow op library."""
import click


@click.command("library", help="Print the path of the op library, for tf.load_op_library.")
def command() -> None:
    """Print the path. A program that serves an exported SavedModel needs only this file of ascpipe."""
    from ascpipe.tfops import load

    click.echo(load.library_path())
