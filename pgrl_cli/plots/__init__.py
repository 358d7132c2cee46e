"""Pictures, as PNG, SVG or PDF: matplotlib's object interface, imported only when one is drawn."""
