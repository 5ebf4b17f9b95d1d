"""Files on a disk, behind a URL, or in the package."""
