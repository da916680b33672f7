"""A part of what a worker does, cut into actions: carried out until there is none."""


class Stage:
    """What is done for one table in one stream."""

    def step(self) -> int:
        """Do everything that can be done now; never waits.  Returns how many actions were carried out."""
        done = 0
        while self.act():
            done += 1
        return done

    def act(self) -> bool:
        """Carry out the next action; False if there is none, or it must wait."""
        raise NotImplementedError
