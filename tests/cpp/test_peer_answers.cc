// Answers to questions that overlap.
#include "check.h"
#include "peers/answers.h"

using namespace ascpipe;

namespace {

// Returns the joined answers of three ranks to a question, or "?" if some answers are missing.
std::string Taken(Answers* answers, std::int64_t number) {
  std::vector<std::string> found;
  if (!answers->Take(number, 3, &found)) return "?";
  return found[0] + "," + found[1] + "," + found[2];
}

}  // namespace

TEST(AnswersToAnEarlierQuestionStayWhenThoseToALaterOneAreTaken) {
  Answers answers;
  const std::int64_t save = answers.Open(), change = answers.Open();
  answers.Hear(1, "1 +save\n2 +change\n");
  answers.Hear(2, "2 +changed\n");
  CHECK_EQ(Taken(&answers, change), ",+change,+changed");
  CHECK_EQ(Taken(&answers, save), "?");
  answers.Hear(2, "1 +saved\n");
  CHECK_EQ(Taken(&answers, save), ",+save,+saved");
}

TEST(ThoseThatHaveNotAnsweredAreKnown) {
  Answers answers;
  answers.Open();
  answers.Hear(2, "1 -a full disk\n");
  std::vector<std::string> found;
  CHECK(!answers.Take(1, 3, &found));
  CHECK_EQ(found[1], "");
  CHECK_EQ(found[2], "-a full disk");
}

TEST(AnswersToAQuestionThatWasGivenUpAreDropped) {
  Answers answers;
  answers.Open();
  answers.Hear(1, "1 +early\n");
  answers.Drop(1);
  answers.Hear(2, "1 +late\n");
  CHECK_EQ(Taken(&answers, 1), "?");
  CHECK_EQ(answers.Open(), 2);
  answers.Hear(1, "2 +a\n");
  answers.Hear(2, "2 +b\n");
  CHECK_EQ(Taken(&answers, 2), ",+a,+b");
  CHECK_EQ(Taken(&answers, 2), "?");  // the question is closed
}

TEST(LinesThatAreNoAnswersAreDropped) {
  Answers answers;
  answers.Open();
  for (const char* lines : {"", "\n", "1", "7 +x\n", "+x\n", " \n", "x +x\n"}) answers.Hear(1, lines);
  std::vector<std::string> found;
  CHECK(!answers.Take(1, 2, &found));
  CHECK_EQ(found[1], "");
}
