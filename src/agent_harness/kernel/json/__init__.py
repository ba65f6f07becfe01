"""JSON: read and written so that what we did not change stays as it was.

jsontext   one value as text, numbers and the order of members kept; strict
edit       single values put, added and removed by their path; every other byte stays
spans      a document with one long list, of which only the elements that changed are written anew
list_file  such a document as a state file, with its last state kept beside it
"""
