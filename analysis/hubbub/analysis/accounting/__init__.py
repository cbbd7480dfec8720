"""Privacy loss of what a trusted curator publishes, and how it adds up. Never a number of the device's own promise."""
