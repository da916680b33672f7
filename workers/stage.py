"""The base class of a worker's stages: repeats ``act()`` until there is nothing to do."""


class Stage:
    """The actions of a worker for one table, or all tables, of one stream."""

    def step(self) -> int:
        """Do everything that can be done now; never waits.  Returns how many actions were carried out."""
        done = 0
        while self.act():
            done += 1
        return done

    def act(self) -> bool:
        """Carry out the next action; False if there is none, or it must wait."""
        raise NotImplementedError
