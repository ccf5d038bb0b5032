"""Figures, tables and pages made from results. Drawing libraries are imported where they are used."""
