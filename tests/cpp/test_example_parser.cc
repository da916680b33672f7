// The parser of records: names are found, values are read, and damaged records touch no memory of others.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "check.h"
#include "input/example_parser.h"

using namespace ascpipe;

namespace {

ByteRange BytesOf(const std::string& text) { return {text.data(), text.size()}; }

std::string Varint(std::uint64_t number) {
  std::string out;
  for (; number >= 0x80; number >>= 7) out.push_back(static_cast<char>(number | 0x80));
  out.push_back(static_cast<char>(number));
  return out;
}

std::string Field(int number, const std::string& data) {
  return static_cast<char>(DelimitedTag(number)) + Varint(data.size()) + data;
}

std::string Entry(const std::string& name, ValueType type, const std::string& values) {
  return Field(1, Field(1, name) + Field(2, Field(static_cast<int>(type), values)));
}

TEST(NamesAreFound) {
  std::vector<std::string> names;
  for (int i = 0; i < 300; ++i) names.push_back("feature_" + std::to_string(i * i));
  for (const int size : {0, 1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 40}) names.push_back(std::string(size, 'n'));
  names.push_back("the same first 8 bytes, another middle 1, the same end");
  names.push_back("the same first 8 bytes, another middle 2, the same end");
  const FeatureIndex index(names);
  for (const int more : {0, 20}) {  // bytes that can be read after a name
    const auto find = [&index, more](const std::string& name) {
      const std::string bytes = name + std::string(more, 'x');
      return index.Find({bytes.data(), name.size()}, bytes.data() + bytes.size());
    };
    for (std::size_t i = 0; i < names.size(); ++i) CHECK(find(names[i]) == static_cast<int>(i));
    for (const char* other : {"N", "nnnnn", "feature_2", "the same first 8 bytes, another middle 3, the same end"}) {
      CHECK(find(other) == -1);
    }
  }
}

TEST(NumbersOfUpTo8BytesAreReadInOnePiece) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 100000; ++i) {
    const std::size_t size = 1 + random() % 8;
    char bytes[8];
    for (std::size_t at = 0; at < 8; ++at) {
      const bool continues = at + 1 < size && random() % 50 != 0;
      bytes[at] = static_cast<char>((random() & 0x7f) | (continues || random() % 50 == 0 ? 0x80 : 0));
    }
    Wire wire({bytes, size});
    std::uint64_t expected = 0;
    const bool is_one = wire.Varint(&expected) && wire.AtEnd();
    std::int64_t number = 0;
    CHECK(ReadVarintOf(bytes, size, &number) == is_one);
    if (is_one) CHECK(static_cast<std::uint64_t>(number) == expected);
  }
}

struct Outputs {
  explicit Outputs(std::size_t records) : numbers(records), floats(2 * records), strings(records), columns(6) {
    columns[0].numbers = numbers.data();
    columns[1].floats = floats.data();
    columns[2].strings = strings.data();
  }

  std::vector<std::int64_t> numbers;
  std::vector<float> floats;
  std::vector<ByteRange> strings;
  std::vector<Column> columns;
};

ExampleParser Parser() {
  return ExampleParser({{"number", ValueType::kInt64, 1, false},
                        {"floats", ValueType::kFloat, 2, false},
                        {"text", ValueType::kBytes, 1, false},
                        {"some", ValueType::kInt64, WantedFeature::kAnyCount, false},
                        {"rates", ValueType::kFloat, WantedFeature::kAnyCount, false},
                        {"words", ValueType::kBytes, WantedFeature::kAnyCount, false}});
}

std::string Record() {
  return Field(1, Entry("some", ValueType::kInt64, Field(1, Varint(7) + Varint(~std::uint64_t{0}) + Varint(300))) +
                      Entry("rates", ValueType::kFloat, Field(1, std::string("\0\0\x80\x3f", 4))) +
                      Entry("words", ValueType::kBytes, Field(1, "a") + Field(1, "")) +
                      Entry("other", ValueType::kInt64, Field(1, Varint(1))) +
                      Entry("text", ValueType::kBytes, Field(1, "words")) +
                      Entry("floats", ValueType::kFloat, Field(1, std::string("\0\0\x80\x3f\0\0\0\x40", 8))) +
                      Entry("number", ValueType::kInt64, Field(1, Varint(std::uint64_t{1} << 63))));
}

TEST(ValuesAreRead) {
  const ExampleParser parser = Parser();
  Outputs out(2);
  const std::string record = Record();
  CHECK(parser.Parse(BytesOf(record), 0, &out.columns));
  CHECK(parser.Parse({nullptr, 0}, 1, &out.columns));
  CHECK(out.numbers[0] == INT64_MIN && out.floats[0] == 1.f && out.floats[1] == 2.f);
  CHECK(std::string(out.strings[0].data, out.strings[0].size) == "words");
  CHECK((out.columns[3].more_numbers == std::vector<std::int64_t>{7, -1, 300}));
  CHECK((out.columns[3].counts == std::vector<std::int64_t>{3, 0}));
  CHECK((out.columns[4].more_floats == std::vector<float>{1.f}));
  CHECK((out.columns[5].counts == std::vector<std::int64_t>{2, 0}));
  CHECK((out.columns[0].missing_in == std::vector<std::int64_t>{1}) && out.columns[3].missing_in.empty());
}

TEST(UnusualRecordsAreReported) {
  const ExampleParser parser = Parser();
  const std::string number = Entry("number", ValueType::kInt64, Field(1, Varint(1)));
  for (const std::string& record :
       {Field(1, number + number), Field(1, number) + Field(1, number), Field(2, number), Field(1, number) + "x",
        Field(1, Entry("number", ValueType::kFloat, Field(1, "abcd"))),
        Field(1, Entry("number", ValueType::kInt64, Field(1, Varint(1) + Varint(2)))),
        Field(1, Entry("number", ValueType::kInt64, "")), Field(1, Entry("number", ValueType::kInt64, "\x08\x01")),
        Field(1, Entry("number", ValueType::kInt64, Field(1, std::string(10, '\xff') + "\x01"))),
        Field(1, Entry("number", ValueType::kInt64, Field(1, std::string(9, '\xff') + "\x02"))),
        Field(1, Entry("floats", ValueType::kFloat, Field(1, "abc"))),
        Field(1, Entry("rates", ValueType::kFloat, Field(1, "abc"))),
        Field(1, Entry("rates", ValueType::kFloat, Field(1, std::string(25, 'x')))),
        Field(1, Field(1, Field(1, "text") + std::string("\0\x05\0\x03\0\x01\x01", 7) + std::string(9, 'x'))),
        Field(1, Field(1, Field(1, "text") + std::string("\0\x05\0\x03\0\x01\x01", 7)) + number)}) {
    Outputs out(1);
    CHECK(!parser.Parse(BytesOf(record), 0, &out.columns));
  }
}

// The parser reads entries with short lengths in one piece, except the last ones of a record, which it reads field by
// field.
TEST(BothWaysReadTheSameValues) {
  std::mt19937_64 random(2);
  const ExampleParser parser({{"n", ValueType::kInt64, 1, true},
                              {"a number with a name of 32 bytes", ValueType::kInt64, 1, true},
                              {"one float", ValueType::kFloat, 1, true},
                              {"floats", ValueType::kFloat, 13, true},
                              {"30 floats", ValueType::kFloat, 30, true}});
  const std::int64_t counts[] = {1, 1, 1, 13, 30};
  for (int i = 0; i < 2000; ++i) {
    const std::uint64_t first = random() >> random() % 64, second = random() >> random() % 64;
    std::string floats;
    for (int byte = 0; byte < 4 * 30; ++byte) floats.push_back(static_cast<char>(random()));
    std::vector<std::string> entries = {
        Entry("n", ValueType::kInt64, Field(1, Varint(first))),
        Entry("a number with a name of 32 bytes", ValueType::kInt64, Field(1, Varint(second))),
        Entry("one float", ValueType::kFloat, Field(1, floats.substr(0, 4))),
        Entry("floats", ValueType::kFloat, Field(1, floats.substr(0, 52))),
        Entry("30 floats", ValueType::kFloat, Field(1, floats)),
        Entry("unknown", ValueType::kInt64, Field(1, Varint(first)))};
    std::shuffle(entries.begin(), entries.end(), random);
    std::string all;
    for (const std::string& entry : entries) all += entry;
    for (const std::string& record :
         {Field(1, all), Field(1, all + Entry("z", ValueType::kBytes, std::string(9, 0)))}) {
      std::vector<std::int64_t> numbers(2);
      std::vector<std::vector<float>> read;
      std::vector<Column> columns(5);
      for (std::size_t at = 0; at < 5; ++at) read.emplace_back(counts[at]);
      for (std::size_t at = 0; at < 2; ++at) columns[at].numbers = &numbers[at];
      for (std::size_t at = 2; at < 5; ++at) columns[at].floats = read[at].data();
      CHECK(parser.Parse(BytesOf(record), 0, &columns));
      CHECK(numbers[0] == static_cast<std::int64_t>(first) && numbers[1] == static_cast<std::int64_t>(second));
      for (std::size_t at = 2; at < 5; ++at) CHECK(std::memcmp(read[at].data(), floats.data(), 4 * counts[at]) == 0);
    }
  }
}

// The address sanitizer reports reads beyond the record, which is in a block of exactly its size.
TEST(DamagedRecordsAreSafe) {
  const ExampleParser parser = Parser();
  std::mt19937 random(1);
  const std::string whole = Record();
  for (int i = 0; i < 20000; ++i) {
    std::string record = whole;
    for (unsigned changes = random() % 4; changes > 0 && !record.empty(); --changes) {
      const std::size_t at = random() % record.size();
      switch (random() % 4) {
        case 0:
          record.resize(at);
          break;
        case 1:
          record.erase(at, 1);
          break;
        case 2:
          record.insert(at, 1, static_cast<char>(random()));
          break;
        default:
          record[at] = static_cast<char>(record[at] ^ 1 << random() % 8);
      }
    }
    const std::vector<char> exact(record.begin(), record.end());
    Outputs out(1);
    parser.Parse({exact.data(), exact.size()}, 0, &out.columns);
  }
}

}  // namespace
