"""Work that outgrows one process, spread over many: the same function over every item, the results in item order."""
