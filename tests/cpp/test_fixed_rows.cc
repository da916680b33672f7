// The rows of a checkpoint's keys are found.  Other keys have no row.
#include <memory>
#include <vector>

#include "check.h"
#include "core/fixed_rows.h"
#include "core/layout.h"

using namespace ascpipe;

namespace {

constexpr std::int64_t kDim = 3;

// Returns key i.  The keys are close together or far apart, and some are negative.
std::int64_t Key(std::int64_t i) { return i % 2 == 0 ? i : -(i << 40); }

std::shared_ptr<FixedRows> Filled(std::int64_t count) {
  std::shared_ptr<FixedRows> rows;
  CHECK(FixedRows::Make("user", count, kDim, &rows).ok());
  for (std::int64_t i = 0; i < count; ++i) rows->keys()[i] = Key(i);
  for (std::int64_t i = 0; i < count * kDim; ++i) rows->embeddings()[i] = static_cast<float>(i / kDim);
  return rows;
}

}  // namespace

TEST(EveryKeyIsFoundWithItsRowAndOthersAreNot) {
  for (const std::int64_t count : {0, 1, 2, 5, 4097}) {
    const std::shared_ptr<FixedRows> rows = Filled(count);
    CHECK(rows->Index().ok());
    std::vector<std::int64_t> keys;
    for (std::int64_t i = 0; i < 2 * count + 3; ++i) keys.push_back(Key(i));
    std::vector<std::int32_t> slots(keys.size(), 7);
    rows->Resolve(keys.data(), static_cast<std::int64_t>(keys.size()), slots.data());
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(keys.size()); ++i) {
      CHECK_EQ(slots[i], i < count ? layout::kSlotHome - static_cast<std::int32_t>(i) : layout::kSlotNone);
    }
  }
}

TEST(AKeyThatIsThereTwiceIsAnError) {
  const std::shared_ptr<FixedRows> rows = Filled(100);
  rows->keys()[99] = Key(7);
  const CoreStatus status = rows->Index();
  CHECK(status.code() == Code::kDataLoss);
  CHECK(status.text().find("occurs twice") != std::string::npos);
}

TEST(SizesThatCannotBeAreRefused) {
  std::shared_ptr<FixedRows> rows;
  CHECK(FixedRows::Make("user", -1, kDim, &rows).code() == Code::kInvalidArgument);
  CHECK(FixedRows::Make("user", std::int64_t{1} << 31, kDim, &rows).code() == Code::kInvalidArgument);
  CHECK(FixedRows::Make("user", 1, 0, &rows).code() == Code::kInvalidArgument);
  CHECK(rows == nullptr);
}
