// Facts about features: types and counts in all forms of records. tests/unit/data compares them with a twin.
#include <random>
#include <string>
#include <vector>

#include "check.h"
#include "input/example_schema.h"

using namespace ascpipe;

namespace {

ByteRange BytesOf(const std::string& text) { return {text.data(), text.size()}; }

std::string Field(int number, const std::string& data) {
  return std::string(1, static_cast<char>(DelimitedTag(number))) + static_cast<char>(data.size()) + data;
}

std::string Entry(const std::string& name, const std::string& feature) {
  return Field(1, Field(1, name) + Field(2, feature));
}

constexpr int kBytes = 1, kFloat = 2, kInt64 = 3;

}  // namespace

TEST(TypesAndCountsAreCollected) {
  ExampleSchema schema;
  const std::string packed = Field(kInt64, Field(1, "\1\2\3"));
  const std::string unpacked = Field(kInt64, "\x08\x01\x08\x02");
  const std::string floats = Field(kFloat, Field(1, "abcdabcd")), unpacked_float = Field(kFloat, "\x0d"
                                                                                                 "abcd");
  CHECK(schema.Add(BytesOf(Field(1, Entry("a", packed) + Entry("b", floats) + Entry("c", ""))), 0));
  CHECK(schema.Add(BytesOf(Field(1, Entry("a", unpacked)) + Field(1, Entry("b", unpacked_float))), 1));
  CHECK(schema.Add(BytesOf(Field(1, Entry("b", packed) + Entry("a", floats) + Entry("a", packed + unpacked))), 2));
  CHECK(schema.Add(BytesOf(Field(1, Entry("d", Field(kBytes, Field(1, "x") + Field(1, ""))))), 3));
  CHECK(schema.Add({nullptr, 0}, 4));
  CHECK_EQ(schema.records(), 5);
  CHECK_EQ(schema.features().size(), 4u);
  const FeatureSummary &a = schema.features()[0], &b = schema.features()[1], &c = schema.features()[2],
                       &d = schema.features()[3];
  CHECK(a.name == "a" && a.type == kInt64 && a.records == 3 && a.least == 2 && a.most == 5 && a.other == -1);
  CHECK(b.name == "b" && b.type == kFloat && b.records == 3 && b.first == 0 && b.other == 2);
  CHECK(c.name == "c" && c.type == 0 && c.records == 1 && c.first == -1);
  CHECK(d.name == "d" && d.type == kBytes && d.least == 2 && d.first == 3);
}

TEST(OtherBytesAreNotCounted) {
  ExampleSchema schema;
  for (const std::string& bytes :
       {std::string("text"), Field(2, ""), Field(1, "x"), Field(1, Field(1, Field(3, ""))),
        Field(1, Entry("a", Field(4, ""))), Field(1, Entry("a", Field(kFloat, Field(1, "abc")))),
        Field(1, Entry("a", Field(kInt64, Field(1, "\x80")))),
        Field(1, Entry("a", Field(kFloat, "\x0d"
                                          "ab"))),
        Field(1, Entry("a", Field(kBytes, "\x08\x01"))),
        Field(1, Entry("a", Field(kInt64, "\x0d"
                                          "abcd")))}) {
    CHECK(!schema.Add(BytesOf(bytes), 0));
  }
  CHECK_EQ(schema.records(), 0);
  for (const FeatureSummary& feature : schema.features()) CHECK_EQ(feature.records, 0);
}

// The address sanitizer reports reads beyond the record, which is in a block of exactly its size.
TEST(DamagedExamplesAreSafe) {
  std::mt19937 random(1);
  const std::string whole = Field(1, Entry("a", Field(kInt64, Field(1, "\1\2"))) +
                                         Entry("b", Field(kFloat, "\x0d"
                                                                  "abcd")) +
                                         Entry("c", Field(kBytes, Field(1, "x") + Field(1, "yz"))));
  ExampleSchema schema;
  for (int i = 0; i < 20000; ++i) {
    std::string record = whole;
    for (unsigned changes = random() % 4; changes > 0 && !record.empty(); --changes) {
      const std::size_t at = random() % record.size();
      if (random() % 3 == 0) {
        record.resize(at);
      } else {
        record[at] = static_cast<char>(record[at] ^ 1 << random() % 8);
      }
    }
    const std::vector<char> exact(record.begin(), record.end());
    schema.Add({exact.data(), exact.size()}, i);
  }
  CHECK(schema.records() > 5000 && schema.records() < 20000);
}
