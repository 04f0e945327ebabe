"""Directories of CTranslate2."""
