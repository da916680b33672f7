// What the other ranks have answered to questions of rank 0.
#ifndef ASCPIPE_PEERS_ANSWERS_H_
#define ASCPIPE_PEERS_ANSWERS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ascpipe {

// Questions overlap, as those of saves in the background, and are answered in any order: an answer belongs to its
// question, whatever else is asked, answered or ended in between.  Not thread-safe.
class Answers {
 public:
  // A new question, by its number.
  std::int64_t Open() {
    open_[++last_];
    return last_;
  }
  // Lines "NUMBER TEXT" of a rank.  Those to questions that do not matter any more are dropped.
  void Hear(int rank, const std::string& lines);
  // The answers to a question, by rank: "" of rank 0 and of ranks that have not answered.  True: all ranks from 1 on
  // have, and the question is closed.
  bool Take(std::int64_t number, int ranks, std::vector<std::string>* answers);
  // Answers to this question do not matter any more.
  void Drop(std::int64_t number) { open_.erase(number); }

 private:
  std::int64_t last_ = 0;
  std::map<std::int64_t, std::map<int, std::string>> open_;  // by number, then by rank
};

}  // namespace ascpipe

#endif  // ASCPIPE_PEERS_ANSWERS_H_
