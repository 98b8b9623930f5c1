"""What the tests of training share: a run that is told by a recorder and asked about at both doors."""
