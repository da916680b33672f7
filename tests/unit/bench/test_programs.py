"""Programs that cases drive: answers come within a limit, or an error that says what was printed."""
import sys

import pytest

from bench.programs import Program, ProgramError

ECHO = "import sys\nfor line in sys.stdin: print('got', line.strip(), flush=True)"


def program(code, **options):
    return Program([sys.executable, "-c", code], **options)


def test_a_program_answers_line_by_line_and_ends_with_its_input():
    with program(ECHO) as running:
        running.tell("3")
        assert running.answer() == "got 3"
        running.tell("4")
        running.tell("5")
        assert [running.answer(), running.answer()] == ["got 4", "got 5"]


def test_a_program_runs_in_the_environment_that_it_is_given_and_may_be_started_again():
    running = program("import os; print(os.environ['WORD'])", environment={"WORD": "here"})
    for _ in range(2):
        running.start()
        assert running.answer() == "here"
        running.end()
    running.end()


def test_what_a_program_prints_as_a_warning_is_seen_when_it_has_ended(capsys):
    with program("import sys; print('mind the gap', file=sys.stderr)"):
        pass
    assert "mind the gap" in capsys.readouterr().err


def test_a_program_that_ends_instead_of_answering_is_an_error_with_what_it_printed():
    with pytest.raises(ProgramError, match=r"ended with 3; it printed \nhalf a line.*no more"):
        with program("import sys; print('half a line', end=''); print(', no more', file=sys.stderr); "
                     "sys.exit(3)") as running:
            running.answer()


def test_a_program_that_ends_before_it_is_told_something_is_an_error_too():
    running = program("raise SystemExit(4)")
    running.start()
    running._process.wait(30)
    with pytest.raises(ProgramError, match="ended with 4; it printed nothing"):
        running.tell("1")


THINKS = "import sys, time; print('thinking\\n.', end='', flush=True); time.sleep(60)"


@pytest.mark.parametrize("waits_for, says", [
    (Program.answer, r"did not answer within 0\.1 s and was killed; it printed \n\."),
    (Program.end, r"did not end within 0\.1 s and was killed; it printed \n\."),
])
def test_a_program_that_does_not_come_to_its_answer_or_end_is_killed(waits_for, says):
    running = program(THINKS)
    running.start()
    process = running._process
    assert running.answer() == "thinking"
    running.limit_s = .1
    with pytest.raises(ProgramError, match=says):
        waits_for(running)
    assert process.returncode == -9
    with pytest.raises(ProgramError, match="does not run"):
        running.answer()


def test_a_program_that_fails_at_its_end_is_an_error():
    with pytest.raises(ProgramError, match="ended with 1; it printed \nTraceback"):
        with program(ECHO + "\nraise ValueError"):
            pass


def test_after_an_exception_of_the_case_its_program_is_killed_and_the_exception_goes_on():
    running = program("import time; time.sleep(60)")
    with pytest.raises(KeyError):
        with running:
            process = running._process
            raise KeyError
    assert process.returncode == -9
