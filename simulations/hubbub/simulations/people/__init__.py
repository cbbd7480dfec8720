"""One model of made-up people: what they answer, how they behave, what is then true."""
