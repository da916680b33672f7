// Answers of all other ranks to requests of rank 0.
#ifndef ASCPIPE_PEERS_ANSWERS_H_
#define ASCPIPE_PEERS_ANSWERS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ascpipe {

// Requests may overlap, and answers may arrive in any order, so each answer contains the number of its request. The
// class is not thread-safe.
class Answers {
 public:
  // Opens a request and returns its number.
  std::int64_t Open() {
    open_[++last_];
    return last_;
  }
  // Stores the answers of a rank, which are lines "NUMBER TEXT". Drops answers to closed requests.
  void Hear(int rank, const std::string& lines);
  // Returns true and closes the request if all ranks except rank 0 have answered. *answers always receives the answers
  // that have arrived, by rank. The answer is "" for rank 0 and for ranks that have not answered yet.
  bool Take(std::int64_t number, int ranks, std::vector<std::string>* answers);
  // Closes a request whose answers are not needed.
  void Drop(std::int64_t number) { open_.erase(number); }

 private:
  std::int64_t last_ = 0;
  std::map<std::int64_t, std::map<int, std::string>> open_;  // answers by number of the request, then by rank
};

}  // namespace ascpipe

#endif  // ASCPIPE_PEERS_ANSWERS_H_
