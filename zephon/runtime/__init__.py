"""When things are computed: reading ahead, in order, without changing what comes out."""
