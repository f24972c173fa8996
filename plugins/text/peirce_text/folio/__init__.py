"""FOLIO: does a conclusion follow from premises in plain English?"""
