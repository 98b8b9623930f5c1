"""Code generated from protos/ by .ci/generate-wire. Not edited by hand."""
