"""pgrl: policy-gradient experiments on language models, from a YAML to a picture.

The README's map shows how the modules stand on each other; a file imports only from floors below its own.
"""

__version__ = "0.1.0"
