#include "graph/batched_map.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "bridge/compatibility.h"
#include "graph/batched_ops.h"
#include "graph/mapped_ops.h"
#include "graph/new_ops.h"
#include "tensorflow/core/framework/graph_to_functiondef.h"
#include "tensorflow/core/graph/algorithm.h"
#include "tensorflow/core/lib/strings/str_util.h"

namespace ascpipe {

using tensorflow::Node;
using tensorflow::NodeBuilder;
using tensorflow::NodeDef;
using tensorflow::PartialTensorShape;
using tensorflow::Status;
using tensorflow::errors::Unimplemented;

namespace {

constexpr char kVariableLength[] = "it uses a feature of variable length";

class MapBatching {
 public:
  MapBatching(tensorflow::FunctionBody* body, const std::vector<int>& ranks,
              const std::vector<PartialTensorShape>& shapes)
      : body_(*body),
        graph_(body->graph),
        ranks_(ranks),
        shapes_(shapes),
        batch_{body->arg_nodes[0], 0},
        ops_(body->graph, batch_) {}

  // Changes the graph of the function so that the function processes a batch. Returns an error with the reason if the
  // function cannot process a batch.
  Status Run(tensorflow::FunctionLibraryDefinition* library) {
    std::vector<Node*> order;
    tensorflow::GetReversePostOrder(*graph_, &order, tensorflow::NodeComparatorName());
    for (Node* node : order) {
      if (!node->IsOp() || node->IsRetval()) continue;
      if (node->IsArg()) {
        ReadArgument(node);
      } else {
        TF_RETURN_IF_ERROR(Read(node));
      }
      TF_RETURN_IF_ERROR(ops_.status());
    }
    return MapTheRest(library);
  }

  // Types of the ops that still run once per element.
  const std::string& each() const { return each_; }

 private:
  using Kind = MapValue::Kind;

  MapValue& ValueOf(const Port& port) { return values_[{port.node->id(), port.index}]; }

  void SetOutputs(Node* node, Kind kind, int rank) {
    for (int i = 0; i < node->num_outputs(); ++i) values_[{node->id(), i}] = {kind, rank};
  }

  void ReadArgument(Node* node) {
    const auto place = static_cast<std::size_t>(IntOf(node, "index"));
    const bool is_element = place < ranks_.size();
    SetOutputs(node, is_element ? Kind::kBatched : Kind::kOnce, is_element ? ranks_[place] : -1);
  }

  Status Read(Node* node) {
    if (node->op_def().is_stateful()) return Unimplemented("it contains the stateful op '", node->name(), "'");
    if (node->IsEnter() || node->IsNextIteration()) return Unimplemented("it contains a loop");
    MapValues inputs;
    for (int i = 0; i < node->num_inputs(); ++i) inputs.push_back(ValueOf(Source(node, i)));
    const auto has = [&inputs](Kind kind) {
      return std::any_of(inputs.begin(), inputs.end(), [kind](const MapValue& value) { return value.kind == kind; });
    };
    if (has(Kind::kSparse)) return Is(node, {"SerializeSparse"}) ? Serialize(node) : Unimplemented(kVariableLength);
    if (!has(Kind::kMapped)) {
      if (!has(Kind::kBatched)) {
        SetOutputs(node, Kind::kOnce, RankOfConstant(node));
        return OkStatus();
      }
      if (Is(node, {"ParseSingleExample"}) && inputs[0].batched() && Rest(inputs)) return Parse(node);
      if (Is(node, {"ParseExampleV2"}) && inputs[0].batched() && Rest(inputs) && inputs[0].rank == 0) {
        return ParseV2(node);
      }
      const int rank = ops_.Batch(node, inputs);
      if (rank >= 0) {
        SetOutputs(node, Kind::kBatched, rank);
        return OkStatus();
      }
    }
    SetOutputs(node, Kind::kMapped, -1);
    mapped_.push_back(node);
    return OkStatus();
  }

  static bool Rest(const MapValues& inputs) {
    return std::all_of(inputs.begin() + 1, inputs.end(), [](const MapValue& value) { return value.once(); });
  }

  static int RankOfConstant(const Node* node) {
    tensorflow::Tensor value;
    return ReadTensor(node, &value) ? value.dims() : -1;
  }

  // Sets the MapValue::Kind of the outputs of an op that parses records. The op returns sparse tensors followed by
  // dense tensors. `sparse` is the number of sparse tensors.
  Status SetParsed(Node* node, int sparse) {
    std::vector<PartialTensorShape> shapes;
    TF_RETURN_IF_ERROR(tensorflow::GetNodeAttr(node->attrs(), "dense_shapes", &shapes));
    SetOutputs(node, Kind::kSparse, -1);
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      if (!shapes[i].IsFullyDefined()) return Unimplemented(kVariableLength);
      values_[{node->id(), 3 * sparse + static_cast<int>(i)}] = {Kind::kBatched, shapes[i].dims()};
    }
    return OkStatus();
  }

  Status Parse(Node* node) {
    std::vector<std::string> sparse_keys, dense_keys;
    tensorflow::DataTypeVector sparse_types;
    std::vector<PartialTensorShape> dense_shapes;
    TF_RETURN_IF_ERROR(tensorflow::GetNodeAttr(node->attrs(), "sparse_keys", &sparse_keys));
    TF_RETURN_IF_ERROR(tensorflow::GetNodeAttr(node->attrs(), "dense_keys", &dense_keys));
    TF_RETURN_IF_ERROR(tensorflow::GetNodeAttr(node->attrs(), "sparse_types", &sparse_types));
    TF_RETURN_IF_ERROR(tensorflow::GetNodeAttr(node->attrs(), "dense_shapes", &dense_shapes));
    step::Outs sparse, dense, defaults;
    NodeBuilder::NodeOut names;
    TF_RETURN_IF_ERROR(Texts(*node, {}, &names));
    TF_RETURN_IF_ERROR(Keys(*node, sparse_keys, &sparse));
    TF_RETURN_IF_ERROR(Keys(*node, dense_keys, &dense));
    for (int i = 1; i < node->num_inputs(); ++i) defaults.push_back(Source(node, i).out());
    NodeBuilder builder(graph_->NewName(node->name() + "_batched"), "ParseExample", graph_->op_registry());
    builder.Input(Source(node, 0).out()).Input(names).Input(sparse).Input(dense).Input(defaults);
    builder.Attr("sparse_types", sparse_types).Attr("dense_shapes", dense_shapes);
    builder.Attr("Nsparse", static_cast<int>(sparse.size())).Attr("Ndense", static_cast<int>(dense.size()));
    Node* parse = nullptr;
    TF_RETURN_IF_ERROR(Place(graph_, &builder, {}, *node, &parse));
    TF_RETURN_IF_ERROR(Repoint(graph_, node, parse));
    graph_->RemoveNode(node);
    return SetParsed(parse, static_cast<int>(sparse.size()));
  }

  // ParseExampleV2 parses either one record or a batch of records, so the node stays unchanged.
  Status ParseV2(Node* node) {
    tensorflow::DataTypeVector ragged;
    TF_RETURN_IF_ERROR(tensorflow::GetNodeAttr(node->attrs(), "ragged_value_types", &ragged));
    return ragged.empty() ? SetParsed(node, IntOf(node, "num_sparse")) : Unimplemented(kVariableLength);
  }

  // Elements of a dataset contain sparse tensors in serialized form.
  Status Serialize(Node* node) {
    const Port indices = Source(node, 0), values = Source(node, 1), shape = Source(node, 2);
    const int sparse = values.index - indices.index;
    if (values.node != indices.node || shape.node != indices.node || shape.index != values.index + sparse) {
      return Unimplemented(kVariableLength);
    }
    tensorflow::DataType type;
    TF_RETURN_IF_ERROR(tensorflow::GetNodeAttr(node->attrs(), "out_type", &type));
    NodeBuilder builder(graph_->NewName(node->name() + "_batched"), "SerializeManySparse", graph_->op_registry());
    builder.Input(indices.out()).Input(values.out()).Input(shape.out()).Attr("out_type", type);
    Node* many = nullptr;
    TF_RETURN_IF_ERROR(Place(graph_, &builder, {}, *node, &many));
    TF_RETURN_IF_ERROR(Repoint(graph_, node, many));
    graph_->RemoveNode(node);
    SetOutputs(many, Kind::kBatched, 1);
    return OkStatus();
  }

  Status Keys(const Node& beside, const std::vector<std::string>& keys, step::Outs* outs) {
    for (const std::string& key : keys) {
      NodeBuilder::NodeOut out;
      TF_RETURN_IF_ERROR(Texts(beside, {key}, &out));
      outs->push_back(out);
    }
    return OkStatus();
  }

  // Adds a string constant: a scalar, or an empty vector if `texts` is empty.
  Status Texts(const Node& beside, const std::vector<std::string>& texts, NodeBuilder::NodeOut* out) {
    tensorflow::Tensor value(tensorflow::DT_STRING,
                             texts.empty() ? tensorflow::TensorShape({0}) : tensorflow::TensorShape());
    if (!texts.empty()) value.scalar<TensorString>()() = texts[0];
    NodeBuilder builder(graph_->NewName(beside.name() + "_key"), "Const", graph_->op_registry());
    Node* node = nullptr;
    builder.Attr("dtype", value.dtype()).Attr("value", value);
    TF_RETURN_IF_ERROR(Place(graph_, &builder, {}, beside, &node));
    *out = {node, 0};
    return OkStatus();
  }

  // Adds an op that computes the results for which there is no batched op. The added op processes one element after
  // another.
  Status MapTheRest(tensorflow::FunctionLibraryDefinition* library) {
    std::set<std::string> types;
    for (const Node* node : mapped_) types.insert(node->type_string());
    each_ = tensorflow::str_util::Join(types, ", ");
    MappedOps rest(graph_, batch_, mapped_);
    for (std::size_t i = 0; i < body_.ret_nodes.size(); ++i) {
      const Port result = Source(body_.ret_nodes[i], 0);
      const MapValue& value = ValueOf(result);
      if (value.kind == Kind::kSparse) return Unimplemented(kVariableLength);
      if (!value.batched()) rest.AddResult(body_.ret_nodes[i], shapes_[i]);
    }
    const auto is_batched = [this](const Port& port) { return ValueOf(port).batched(); };
    return rest.Write(is_batched, library);
  }

  const tensorflow::FunctionBody& body_;
  tensorflow::Graph* const graph_;
  const std::vector<int>& ranks_;
  const std::vector<PartialTensorShape>& shapes_;
  const Port batch_;
  BatchedOps ops_;
  std::map<std::pair<int, int>, MapValue> values_;  // key: id of a node, and index of its output
  Nodes mapped_;
  std::string each_;
};

}  // namespace

bool ParsesRecord(const tensorflow::FunctionDef& function) {
  return std::any_of(function.node_def().begin(), function.node_def().end(), [](const NodeDef& node) {
    return node.op() == "ParseSingleExample" || node.op() == "ParseExampleV2" || node.op() == "DecodeCSV";
  });
}

BatchedMap BatchMap(const std::string& function, const std::vector<int>& ranks,
                    const std::vector<PartialTensorShape>& shapes, tensorflow::FunctionLibraryDefinition* library) {
  std::unique_ptr<tensorflow::FunctionBody> body;
  std::string each;
  const auto changed = [&]() -> Status {
    TF_RETURN_IF_ERROR(BodyOf(function, *library, &body));
    if (ranks.empty() || body->arg_nodes.size() < ranks.size() || body->ret_nodes.size() != shapes.size()) {
      return Unimplemented("its signature does not match the dataset");
    }
    MapBatching batching(body.get(), ranks, shapes);
    TF_RETURN_IF_ERROR(batching.Run(library));
    each = batching.each();
    return OkStatus();
  };
  Status status = changed();
  tensorflow::FunctionDef batched;
  const std::string name =
      library->UniqueFunctionName(function + (each.empty() ? "_of_batches_" : "_of_batches_and_elements_"));
  if (status.ok()) status = tensorflow::GraphToFunctionDef(*body->graph, name, &batched);
  if (status.ok()) status = library->AddFunctionDef(batched);
  return status.ok() ? BatchedMap{name, "", each} : BatchedMap{"", MessageOf(status), ""};
}

}  // namespace ascpipe
