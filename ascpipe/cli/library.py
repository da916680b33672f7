"""``ascpipe library``: where the library with the TensorFlow ops is, for processes that load it alone."""
import click


@click.command("library", help="Print the path of the op library, for tf.load_op_library.")
def command() -> None:
    """A program that serves an exported SavedModel needs this file and nothing else of ours."""
    from ascpipe.tfops import load

    click.echo(load.library_path())
