#include "peers/answers.h"

#include <cstdlib>

namespace ascpipe {

void Answers::Hear(int rank, const std::string& lines) {
  for (std::size_t begin = 0, end; begin < lines.size(); begin = end + 1) {
    end = lines.find('\n', begin);
    if (end == std::string::npos) end = lines.size();
    const std::string line = lines.substr(begin, end - begin);
    const std::size_t space = line.find(' ');
    const auto question = open_.find(std::strtoll(line.c_str(), nullptr, 10));
    if (space != std::string::npos && question != open_.end()) question->second[rank] = line.substr(space + 1);
  }
}

bool Answers::Take(std::int64_t number, int ranks, std::vector<std::string>* answers) {
  answers->assign(static_cast<std::size_t>(ranks), "");
  const auto question = open_.find(number);
  if (question == open_.end()) return false;
  for (const auto& answer : question->second) (*answers)[static_cast<std::size_t>(answer.first)] = answer.second;
  if (static_cast<int>(question->second.size()) < ranks - 1) return false;
  open_.erase(question);
  return true;
}

}  // namespace ascpipe
