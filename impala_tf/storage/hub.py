"""Uploads to the Hugging Face Hub."""

import errno
import types

from impala_tf import config as config_lib
from impala_tf.storage import files


def client() -> types.ModuleType:
  """Returns huggingface_hub; raises UserError if it is not installed."""
  try:
    import huggingface_hub
  except ImportError as error:
    raise config_lib.UserError(
        '--push_to_hub needs the package huggingface_hub; '
        "pip install 'impala_tf[hub]'") from error
  return huggingface_hub


def upload(directory: str, name: str) -> str:
  """Uploads a directory as the model `name`, made if need be; returns its URL.

  Raises RemoteError if the Hub refuses it or does not answer.
  """
  hub = client()
  try:
    url = hub.create_repo(name, exist_ok=True)
    hub.upload_folder(repo_id=name, folder_path=directory)
    return str(url)
  except Exception as error:  # Of several libraries.
    raise files.RemoteError(
        errno.EIO, f'{directory} is written, but the Hub has not taken it as '
        f'{name}: {files.one_line(error)}; try again with hf upload {name} '
        f'{directory}') from error
