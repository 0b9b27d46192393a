"""The notebook of the documentation, executed as it is."""

from pathlib import Path

import nbformat
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[1] / "examples" / "first.ipynb"


def test_the_notebook_runs_and_shows_what_it_says(folder: Path) -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert all(not cell.outputs for cell in notebook.cells if cell.cell_type == "code"), "it has no outputs"
    client = NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(folder)}})
    client.execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    kinds = [kind for output in outputs for kind in output.get("data", {})]
    assert kinds.count("image/png") == 4, "a figure of each kind"
    shown = "".join(str(output.get("data", {})) + output.get("text", "") for output in outputs)
    assert "14 trials" in shown, "the bar has ended"
    assert "65536 bytes by io_uring/syscall/interrupt" in shown and "b'iopjiopj'" in shown
    assert not any(output.output_type == "stream" and output.name == "stderr" for output in outputs)
