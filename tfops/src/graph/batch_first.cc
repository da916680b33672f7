#include "graph/batch_first.h"

#include <algorithm>
#include <mutex>
#include <set>
#include <string>

#include "bridge/compatibility.h"
#include "graph/batched_map.h"
#include "graph/step_graph.h"
#include "tensorflow/core/framework/node_def_util.h"

namespace ascpipe {

using tensorflow::DataTypeVector;
using tensorflow::Edge;
using tensorflow::Graph;
using tensorflow::Node;
using tensorflow::NodeDef;
using tensorflow::PartialTensorShape;
using tensorflow::Status;

namespace {

constexpr char kTypes[] = "output_types";
constexpr char kShapes[] = "output_shapes";
constexpr char kFunction[] = "f";

// Types and shapes of the elements of a dataset.
struct Elements {
  DataTypeVector types;
  std::vector<PartialTensorShape> shapes;
};

bool IsBatch(const Node* node) { return Is(node, {"BatchDataset", "BatchDatasetV2"}); }

bool IsMap(const Node* node) { return Is(node, {"MapDataset", "ParallelMapDataset", "ParallelMapDatasetV2"}); }

bool IsShuffle(const Node* node) {
  return Is(node, {"ShuffleDataset", "ShuffleDatasetV2", "ShuffleDatasetV3", "ShuffleAndRepeatDataset",
                   "ShuffleAndRepeatDatasetV2"});
}

// Returns true for a dataset that passes on elements of its input without reading their contents.
bool PassesOn(const Node* node) {
  return IsShuffle(node) || Is(node, {"PrefetchDataset", "RepeatDataset", "SkipDataset", "TakeDataset"});
}

bool ReadElements(const Node* dataset, Elements* elements) {
  elements->types.clear();  // GetNodeAttr appends to vectors.
  elements->shapes.clear();
  if (Is(dataset, {"TFRecordDataset", "TextLineDataset", "FixedLengthRecordDataset", "FixedLengthRecordDatasetV2"})) {
    elements->types.push_back(tensorflow::DT_STRING);
    elements->shapes.emplace_back(std::vector<tensorflow::int64>{});
    return true;
  }
  const tensorflow::AttrSlice attrs = dataset->attrs();
  if (!tensorflow::GetNodeAttr(attrs, kShapes, &elements->shapes).ok()) return false;
  return tensorflow::GetNodeAttr(attrs, kTypes, &elements->types).ok() ||
         tensorflow::GetNodeAttr(attrs, "Toutput_types", &elements->types).ok();
}

bool AreStatic(const Elements& elements) {
  return std::all_of(elements.types.begin(), elements.types.end(),
                     [](tensorflow::DataType type) { return type != tensorflow::DT_VARIANT; }) &&
         std::all_of(elements.shapes.begin(), elements.shapes.end(),
                     [](const PartialTensorShape& shape) { return shape.IsFullyDefined(); });
}

Elements BatchOf(const Elements& elements) {
  Elements batch{elements.types, {}};
  for (const PartialTensorShape& shape : elements.shapes) {
    batch.shapes.push_back(PartialTensorShape({-1}).Concatenate(shape));
  }
  return batch;
}

bool IsReadByOthers(const Node* node) {
  return std::count_if(node->out_edges().begin(), node->out_edges().end(),
                       [](const Edge* edge) { return !edge->IsControlEdge(); }) > 1;
}

class Datasets {
 public:
  Datasets(Graph* graph, tensorflow::FunctionLibraryDefinition* library) : graph_(graph), library_(*library) {}

  Status Run(bool* changed) {
    Nodes batches;
    for (Node* node : graph_->op_nodes()) {
      if (IsBatch(node)) batches.push_back(node);
    }
    for (Node* batch : batches) {
      while (batch != nullptr && FollowsParsing(batch)) {
        TF_RETURN_IF_ERROR(MoveBeforeMap(batch, &batch));
        if (batch != nullptr) *changed = true;
      }
    }
    return OkStatus();
  }

 private:
  std::string FunctionOf(const Node* map) const {
    tensorflow::NameAttrList called;
    return tensorflow::GetNodeAttr(map->attrs(), kFunction, &called).ok() ? called.name() : "";
  }

  bool Parses(const Node* node) const {
    const tensorflow::FunctionDef* const function = IsMap(node) ? library_.Find(FunctionOf(node)) : nullptr;
    return function != nullptr && ParsesRecord(*function);
  }

  // Returns true if `batch` follows a map that parses records, with no other batch dataset in between.
  bool FollowsParsing(const Node* batch) const {
    for (const Node* at = Source(batch, 0).node; at != nullptr && at->num_inputs() > 0; at = Source(at, 0).node) {
      if (at->output_type(0) != tensorflow::DT_VARIANT || IsBatch(at)) return false;
      if (Parses(at)) return true;
    }
    return false;
  }

  // Exchanges a batch dataset and the map before it. Returns the new batch dataset, or null if the two datasets cannot
  // be exchanged.
  Status MoveBeforeMap(Node* batch, Node** new_batch) {
    *new_batch = nullptr;
    Nodes between;  // datasets between the batch and the map
    Node* map = Source(batch, 0).node;
    for (; PassesOn(map); map = Source(map, 0).node) {
      if (IsShuffle(map) && IsReadByOthers(map)) return Stays(map, "several datasets read what it shuffles");
      between.push_back(map);
    }
    if (!IsMap(map)) return Stays(map, "it is between the map and the batch");
    Elements elements, results;
    if (!ReadElements(Source(map, 0).node, &elements) || !ReadElements(map, &results) || !AreStatic(elements)) {
      return Stays(map, "the shape of its elements is not known");
    }
    std::vector<int> ranks;
    for (const PartialTensorShape& shape : elements.shapes) ranks.push_back(shape.dims());
    const BatchedMap batched = BatchMap(FunctionOf(map), ranks, results.shapes, &library_);
    if (batched.function.empty()) return Stays(map, batched.reason);

    Port source = Source(map, 0);
    if (SeparatesShuffleAndRepeat(map, between)) TF_RETURN_IF_ERROR(Separate(source, elements, &source));
    for (auto dataset = between.rbegin(); dataset != between.rend(); ++dataset) {
      Node* copy = nullptr;
      TF_RETURN_IF_ERROR(Copy(*dataset, source, elements, &copy));
      source = {copy, 0};
    }
    TF_RETURN_IF_ERROR(Copy(batch, source, BatchOf(elements), new_batch));
    ReadElements(batch, &results);
    Node* new_map = nullptr;
    TF_RETURN_IF_ERROR(Copy(map, {*new_batch, 0}, results, &new_map));
    tensorflow::NameAttrList function;
    TF_RETURN_IF_ERROR(tensorflow::GetNodeAttr(map->attrs(), kFunction, &function));
    function.set_name(batched.function);
    new_map->ClearAttr(kFunction);
    new_map->AddAttr(kFunction, function);
    TF_RETURN_IF_ERROR(Repoint(graph_, batch, new_map));
    RemoveUnread(batch);
    for (Node* dataset : between) RemoveUnread(dataset);
    if (!batched.each.empty()) {
      LogOnce("the function '" + FunctionOf(map) +
              "' processes batches, but these ops run for each record: " + batched.each);
    }
    RemoveUnread(map);
    return OkStatus();
  }

  static bool SeparatesShuffleAndRepeat(const Node* map, const Nodes& after) {
    const Node* before = Source(map, 0).node;
    while (PassesOn(before) && !IsShuffle(before)) before = Source(before, 0).node;
    return IsShuffle(before) &&
           std::any_of(after.begin(), after.end(), [](const Node* node) { return Is(node, {"RepeatDataset"}); });
  }

  // Adds a dataset that returns all elements of `source`, to separate a repeat dataset from the shuffle dataset before
  // it. TensorFlow would merge an adjacent shuffle and repeat into one dataset, which shuffles in another order.
  Status Separate(const Port& source, const Elements& elements, Port* separated) {
    Node* numbers[2];
    for (int i = 0; i < 2; ++i) {
      tensorflow::Tensor value(tensorflow::DT_INT64, {});
      value.scalar<tensorflow::int64>()() = i;
      tensorflow::NodeBuilder constant(graph_->NewName("ascpipe/shard"), "Const", graph_->op_registry());
      constant.Attr("dtype", value.dtype()).Attr("value", value);
      TF_RETURN_IF_ERROR(Place(graph_, &constant, {}, *source.node, &numbers[i]));
    }
    tensorflow::NodeBuilder shard(graph_->NewName("ascpipe/shard"), "ShardDataset", graph_->op_registry());
    shard.Input(source.out()).Input(numbers[1]).Input(numbers[0]);
    shard.Attr(kTypes, elements.types).Attr(kShapes, elements.shapes);
    Node* all = nullptr;
    TF_RETURN_IF_ERROR(Place(graph_, &shard, {}, *source.node, &all));
    *separated = {all, 0};
    return OkStatus();
  }

  // Copies a dataset op. The copy reads `source`.
  Status Copy(const Node* dataset, const Port& source, const Elements& elements, Node** copy) {
    NodeDef definition = dataset->def();
    definition.set_name(graph_->NewName(dataset->name() + "_ascpipe"));
    tensorflow::SetAttrValue(elements.types, &(*definition.mutable_attr())[kTypes]);
    tensorflow::SetAttrValue(elements.shapes, &(*definition.mutable_attr())[kShapes]);
    Status status;
    *copy = graph_->AddNode(definition, &status);
    TF_RETURN_IF_ERROR(status);
    (*copy)->set_assigned_device_name(dataset->assigned_device_name());
    for (const Edge* edge : dataset->in_edges()) {
      if (edge->IsControlEdge()) {
        graph_->AddControlEdge(edge->src(), *copy);
      } else if (edge->dst_input() > 0) {
        graph_->AddEdge(edge->src(), edge->src_output(), *copy, edge->dst_input());
      }
    }
    graph_->AddEdge(source.node, source.index, *copy, 0);
    return OkStatus();
  }

  void RemoveUnread(Node* dataset) {
    if (dataset->out_edges().empty()) graph_->RemoveNode(dataset);
  }

  // Logs the reason why records of a dataset are still parsed one by one.
  Status Stays(const Node* dataset, const std::string& why) const {
    const std::string function = FunctionOf(dataset);
    LogOnce("records are parsed one by one, which is much slower than in batches, because of " +
            (function.empty() ? "'" + dataset->name() + "'" : "the function '" + function + "'") + ": " + why);
    return OkStatus();
  }

  static void LogOnce(const std::string& text) {
    static std::mutex mutex;
    static auto* const logged = new std::set<std::string>;
    std::lock_guard<std::mutex> lock(mutex);
    if (logged->insert(text).second) LOG(INFO) << "ascpipe: " << text;
  }

  Graph* const graph_;
  tensorflow::FunctionLibraryDefinition& library_;
};

}  // namespace

Status BatchFirst(Graph* graph, tensorflow::FunctionLibraryDefinition* library, bool* changed) {
  *changed = false;
  return Datasets(graph, library).Run(changed);
}

}  // namespace ascpipe
