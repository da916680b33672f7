#include "peers/horovod.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <thread>
#include <utility>

#include "core/error_codes.gen.h"
#include "peers/header.h"

// Classes with the ABI of Horovod 0.28.1 (CPU build). The order of members and virtual functions must match Horovod's
// library.
namespace horovod {
namespace common {

enum class DataType : int { kInt32 = 4, kInt64 = 5 };

struct Event {};

struct Status {
  Event event;
  int type = 0;  // 0: ok
  std::string reason;
};

struct TensorShape {
  std::vector<std::int64_t> dims;
};

class ReadyEvent;
struct ReadyEventList {
  std::vector<std::shared_ptr<ReadyEvent>> events;
};

class PersistentBuffer;

class Tensor {
 public:
  virtual DataType dtype() const = 0;
  virtual TensorShape shape() const = 0;
  virtual const void* data() const = 0;
  virtual std::int64_t size() const = 0;
  virtual ~Tensor() = default;
};

class OpContext {
 public:
  virtual Status AllocatePersistent(std::int64_t size, std::shared_ptr<PersistentBuffer>* buffer) = 0;
  virtual Status AllocateOutput(TensorShape shape, std::shared_ptr<Tensor>* tensor,
                                std::shared_ptr<ReadyEvent>* event) = 0;
  virtual Status AllocateOutput(int output, TensorShape shape, std::shared_ptr<Tensor>* tensor,
                                std::shared_ptr<ReadyEvent>* event) = 0;
  virtual Status AllocateZeros(std::int64_t elements, DataType type, std::shared_ptr<Tensor>* tensor) = 0;
  virtual int framework() const = 0;
  virtual ~OpContext() = default;
};

}  // namespace common
}  // namespace horovod

namespace ascpipe {

namespace {

namespace hvd = horovod::common;

using Enqueue = hvd::Status (*)(std::shared_ptr<hvd::OpContext>, std::shared_ptr<hvd::Tensor>,
                                std::shared_ptr<hvd::Tensor>, hvd::ReadyEventList, const std::string&, int,
                                std::function<void(const hvd::Status&)>, std::int32_t);
constexpr char kEnqueue[] =
    "_ZN7horovod6common21EnqueueTensorAlltoallESt10shared_ptrINS0_9OpContextEES1_INS0_6TensorEES5_NS0_14ReadyEventListE"
    "RKSsiSt8functionIFvRKNS0_6StatusEEEi";

using ShutDown = void (*)();
constexpr char kShutDown[] = "horovod_shutdown";

// All exchanges have the same name, so that Horovod matches messages of different kinds.
constexpr char kName[] = "ascpipe/exchange";
constexpr std::size_t kReasonBytes = 160;  // maximum length of an error message
constexpr int kProcessor = -1;             // Horovod's device number of the CPU
constexpr std::int64_t kWords = kSectionUnit / 8;

// Tensor with rows of 64 bytes. Horovod counts the rows of a split in int32, so rows are larger than one byte.
class Rows : public hvd::Tensor {
 public:
  Rows(std::shared_ptr<std::vector<std::uint8_t>> bytes, std::int64_t rows) : bytes_(std::move(bytes)), rows_(rows) {}

  hvd::DataType dtype() const override { return hvd::DataType::kInt64; }
  hvd::TensorShape shape() const override { return {{rows_, kWords}}; }
  const void* data() const override { return bytes_->data(); }
  std::int64_t size() const override { return rows_ * kSectionUnit; }

 private:
  const std::shared_ptr<std::vector<std::uint8_t>> bytes_;
  const std::int64_t rows_;
};

class Splits : public hvd::Tensor {
 public:
  explicit Splits(std::vector<std::int32_t> splits) : splits_(std::move(splits)) {}

  hvd::DataType dtype() const override { return hvd::DataType::kInt32; }
  hvd::TensorShape shape() const override { return {{static_cast<std::int64_t>(splits_.size())}}; }
  const void* data() const override { return splits_.data(); }
  std::int64_t size() const override { return static_cast<std::int64_t>(splits_.size() * sizeof(std::int32_t)); }
  const std::vector<std::int32_t>& values() const { return splits_; }

 private:
  const std::vector<std::int32_t> splits_;
};

// Memory for results of Horovod. Output 0 contains the messages, and output 1 contains their sizes.
class ExchangeOutput : public hvd::OpContext {
 public:
  explicit ExchangeOutput(std::shared_ptr<std::vector<std::uint8_t>> into) : bytes_(std::move(into)) {}

  hvd::Status AllocatePersistent(std::int64_t, std::shared_ptr<hvd::PersistentBuffer>*) override { return Refused(); }
  hvd::Status AllocateOutput(hvd::TensorShape shape, std::shared_ptr<hvd::Tensor>* tensor,
                             std::shared_ptr<hvd::ReadyEvent>*) override {
    const std::size_t bytes = static_cast<std::size_t>(shape.dims[0] * kSectionUnit);
    if (bytes_->size() < bytes) bytes_->resize(bytes + bytes / 4);
    *tensor = std::make_shared<Rows>(bytes_, shape.dims[0]);
    return hvd::Status();
  }
  hvd::Status AllocateOutput(int output, hvd::TensorShape shape, std::shared_ptr<hvd::Tensor>* tensor,
                             std::shared_ptr<hvd::ReadyEvent>* event) override {
    if (output == 0) return AllocateOutput(std::move(shape), tensor, event);
    splits_ = std::make_shared<Splits>(std::vector<std::int32_t>(static_cast<std::size_t>(shape.dims[0])));
    *tensor = splits_;
    return hvd::Status();
  }
  hvd::Status AllocateZeros(std::int64_t, hvd::DataType, std::shared_ptr<hvd::Tensor>*) override { return Refused(); }
  int framework() const override { return 0; }

  Parcel received() const {
    Parcel parcel;
    parcel.bytes = bytes_;
    for (const std::int32_t rows : splits_->values()) parcel.sizes.push_back(rows * kSectionUnit);
    return parcel;
  }
  bool has_sizes() const { return splits_ != nullptr; }

 private:
  static hvd::Status Refused() {
    hvd::Status status;
    status.type = 2;  // PRECONDITION_ERROR
    status.reason = "ascpipe: Horovod asks for memory that an alltoall does not need";
    return status;
  }

  const std::shared_ptr<std::vector<std::uint8_t>> bytes_;
  std::shared_ptr<Splits> splits_;
};

// Returns the first sentence of an error. Removes the source location at the beginning, such as "[/path/file.cc:136]".
std::string FirstSentence(std::string text) {
  const std::size_t begin = text.compare(0, 1, "[") == 0 ? text.find("] ") : std::string::npos;
  if (begin != std::string::npos) text = text.substr(begin + 2);
  return text.substr(0, std::min({text.find(". "), text.find('\n'), kReasonBytes}));
}

CoreStatus EngineError(const hvd::Status& status) {
  return Error(kE312, "the exchange with the other ranks has ended (Horovod: ", FirstSentence(status.reason), ")");
}

class HorovodExchanges : public Transport {
 public:
  HorovodExchanges(Enqueue enqueue, ShutDown shut_down, int rank, int size)
      : enqueue_(enqueue), shut_down_(shut_down), rank_(rank), size_(size) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void Start(Parcel parcel, Done done) override {
    std::vector<std::int32_t> splits;
    std::int64_t rows = 0;
    for (const std::int64_t size : parcel.sizes) {
      splits.push_back(static_cast<std::int32_t>(size / kSectionUnit));
      rows += size / kSectionUnit;
    }
    if (rows > kMostParcelBytes / kSectionUnit) {
      done(Error(Code::kResourceExhausted, "an exchange of ", rows * kSectionUnit, " bytes; at most ", kMostParcelBytes,
                 " can be sent: make batches smaller"),
           {});
      return;
    }
    // Reuse the memory of the previous exchange if nothing reads this memory any more. Allocating new pages would take
    // longer than copying the data.
    if (into_ == nullptr || into_.use_count() > 1) into_ = std::make_shared<std::vector<std::uint8_t>>();
    const auto exchange = std::make_shared<ExchangeOutput>(into_);
    const hvd::Status begun = enqueue_(
        exchange, std::make_shared<Rows>(parcel.bytes, rows), std::make_shared<Splits>(std::move(splits)), {}, kName,
        kProcessor,
        [exchange, done](const hvd::Status& status) {
          if (status.type != 0) {
            done(EngineError(status), {});
          } else if (!exchange->has_sizes()) {
            done(Error(Code::kInternal, "Horovod did not say what came"), {});
          } else {
            done(CoreStatus(), exchange->received());
          }
        },
        0);
    if (begun.type != 0) done(EngineError(begun), {});
  }

  void End() override {
    if (shut_down_ == nullptr) return;
    sigset_t all, before;  // only threads of the user's program handle signals
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    std::thread(shut_down_).detach();  // the shutdown may wait for a rank that does not answer
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

 private:
  const Enqueue enqueue_;
  const ShutDown shut_down_;
  const int rank_, size_;
  std::shared_ptr<std::vector<std::uint8_t>> into_;
};

}  // namespace

CoreStatus HorovodTransport::Make(const std::string& library, int rank, int size,
                                  std::unique_ptr<Transport>* transport) {
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (handle == nullptr) {
    return Error(Code::kFailedPrecondition, "Horovod's library ", library,
                 " is not loaded in this process: import "
                 "horovod.tensorflow first");
  }
  void* const found = dlsym(handle, kEnqueue);
  void* const shut_down = dlsym(handle, kShutDown);
  dlclose(handle);  // the library stays loaded because Python uses it
  if (found == nullptr) {
    return Error(Code::kFailedPrecondition, library,
                 " has no alltoall as Horovod 0.28.1 for TensorFlow 1.15 has it; "
                 "install horovod==0.28.1 (make ranks)");
  }
  transport->reset(
      new HorovodExchanges(reinterpret_cast<Enqueue>(found), reinterpret_cast<ShutDown>(shut_down), rank, size));
  return CoreStatus();
}

}  // namespace ascpipe
