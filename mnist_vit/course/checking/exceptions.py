"""Words of exceptions of Python, PyTorch and NumPy: what they mean, and what can be done.

Each is true wherever it is raised. The first entry that fits is told: the narrower one stands
first.
"""

BOTH = "Print both shapes, and say of each axis what it stands for."
CALL = "Compare the call with the signature of what is called, self included."
# words of an exception, what they mean, and what can be done; the first that fit are told
MEANINGS: tuple[tuple[str, str, str], ...] = (
    # None, and results in a pair
    (
        r"return_types\.",
        "max(dim=…), min, median, sort and others give several results at once.",
        "Take the one that you need: .values or .indices; amax and amin give the values alone.",
    ),
    (
        r"NoneType",
        "Something is None here.",
        "A name set to None stays so until a line fills it. A function without return gives None,"
        " and so do append() and sort(); an attention layer gives None for its weights where"
        " need_weights=False. .grad is None for what the loss does not depend on, and for a tensor"
        " that was itself computed.",
    ),
    # lists, tuples, dicts, texts and numbers
    (
        r"must be Tensor, not tuple",
        "A tuple stands where a tensor is needed.",
        "If a layer gave it, take the part that you need: of nn.MultiheadAttention's pair, pair[0]"
        " is the output, and pair[1] the weights. If you wrote it, compare the order of the"
        " arguments with the signature.",
    ),
    (
        r"must be Tensor, not list",
        "A list stands where a tensor is needed.",
        "torch.tensor(…) makes a tensor of a list of numbers, torch.stack(…) of a list of tensors.",
    ),
    (
        r"must be Tensor, not numpy|expected np\.ndarray",
        "NumPy's arrays and PyTorch's tensors are two kinds.",
        "torch.from_numpy(…) makes a tensor of an array, and torch.tensor(…) one of a list.",
    ),
    (
        r"can only concatenate tuple",
        "+ joins a tuple with another tuple alone.",
        "A tuple of one has a comma: (a,).",
    ),
    (
        r"'tuple' and|and 'tuple'",
        "A tuple, such as (a, b), stands where a single value is needed.",
        "[0], [1] and so on take its parts.",
    ),
    (
        r"can't multiply sequence by",
        "A list, a tuple or a text is repeated by *, a whole number of times.",
        "torch.tensor(…) makes a tensor of a list of numbers, and that calculates; float(…) makes a"
        " number of a text.",
    ),
    (
        r"(unsupported operand|not supported between|bad operand) .*'list'|concatenate list",
        "A list does not calculate: + joins two lists, * with a whole number repeats one.",
        "torch.tensor(…) makes a tensor of a list of numbers, torch.stack(…) of a list of tensors.",
    ),
    (
        r"(list|tuple) indices must be integers or slices, not tuple",
        "A list or a tuple takes one index, and a tuple stands in the brackets: a comma makes one.",
        "A tensor takes one for each axis. If a layer gave a tuple, take the part that you need:"
        " of attention's pair, pair[0] is the output. a[0][1] takes a place in a place.",
    ),
    (
        r"(list|tuple) indices must be integers or slices, not str",
        "A list or a tuple takes one place, a whole number that counts from 0, or a slice.",
        "a[0][1] takes a place in a place. What has names for its places is a dict.",
    ),
    (
        r"(list|tuple) indices must be integers",
        "A list or a tuple takes one place, a whole number that counts from 0, or a slice.",
        "a[0][1] takes a place in a place.",
    ),
    (
        r"unsupported operand .*'range'",
        "A range does not calculate: it is only gone through.",
        "for k in range(n) goes through n numbers; what is meant n times is n * x.",
    ),
    (
        r"requires at least one data point|no mean for empty data|no median for empty data",
        "A mean or a median of nothing is asked for.",
        "An empty list has none: say first what is right in this case. .mean() of an empty tensor"
        " is nan.",
    ),
    (
        r"unsupported operand .*for \+: 'dict'",
        "Dicts are not added.",
        "{**a, **b} has what is in both.",
    ),
    (
        r"can only concatenate str|operand .*'str'|not supported between .*'str'"
        r"|expected str instance|'in <string>' requires",
        "A text meets something that is none.",
        'str(…) makes a text of a number, and f"{x}" puts it into one; float(…) and int(…) make'
        " numbers of a text.",
    ),
    (
        r"object is not callable",
        "Round brackets call what stands before them, and that is no function here.",
        "A product needs *, a place [ ], a plain value no brackets; layers in a list are called one"
        " after the other, as nn.Sequential does.",
    ),
    (
        r"'(?:int|float|bool)' object does not support item assignment",
        "A plain number has no places to write into.",
        "",
    ),
    (
        r"does not support item assignment",
        "What is written into cannot be changed.",
        "A tuple is made anew: (new, *old[1:]).",
    ),
    (
        r"unhashable type: 'slice'",
        "A slice stands where a key is needed: a dict takes one key at a time.",
        "list(…) of a dict gives its keys in order.",
    ),
    (
        r"unhashable type",
        "What stands there cannot be a key of a dict, or a member of a set.",
        "Texts, numbers and tuples of them can.",
    ),
    (
        r"is not a Module subclass",
        "Something that is no module stands where a module is needed.",
        "nn.Sequential takes modules one by one: *layers takes a list apart.",
    ),
    (
        r"must be tuple of Tensors, not|expected Tensor as element",
        "A list of tensors is needed, and something else stands there, or in it.",
        "As in torch.stack([a, b], dim=0). torch.tensor(…) makes a tensor of numbers.",
    ),
    (
        r"maximum recursion depth",
        "A function calls itself, perhaps by way of another one, without end, or more often than"
        " Python allows: about 1,000 calls, one inside the other.",
        "A loop has no such limit. Without one, a case must be answered without a call, and every"
        " call must come nearer to it.",
    ),
    (
        r"not an iterator",
        "This does not give its values one after the other.",
        "next(…) needs iter(…) around a list. A function under @contextmanager must yield once, and"
        " not return: what stands before the yield runs before the block.",
    ),
    (
        r"generator didn't (?:stop|yield)",
        "A function under @contextmanager must yield once, neither more often nor not at all.",
        "What stands before the yield runs before the block, and what stands behind it afterwards.",
    ),
    (
        r"context manager protocol",
        "What stands behind with has nothing to do before the block and after it.",
        "A function with a yield needs @contextmanager above it, and torch.no_grad() its brackets.",
    ),
    (
        r"^normal\(\) received an invalid combination",
        "torch.normal takes no such arguments.",
        "Its size is a tuple, as in torch.normal(mean, std, (n,)); torch.randn(n) gives n standard"
        " normal numbers.",
    ),
    (
        r"invalid combination of arguments",
        "This function takes no such arguments.",
        "Compare their number, kinds and names with its signature.",
    ),
    (
        r"length of the desired ordering|duplicate dims",
        "permute must name every axis of the tensor once.",
        "Print its shape, and say of each axis where it should go.",
    ),
    (
        r"_IncompatibleKeys",
        "load_state_dict changes the module and gives back a report, not the module.",
        "Call it on a line of its own, and go on with the module.",
    ),
    (
        r"'(generator|zip|map|filter|dict_\w+|odict_\w+)' (object is not subscriptable|has no len)"
        r"|(operand|object of) .*'generator'",
        "This gives its values one after the other: it has no places to ask for, and no length.",
        "list(…) makes a list of it; zip(a, b) goes through two of them together.",
    ),
    # kinds of numbers
    (
        r"bitwise_|only implemented on integer and Boolean|for [&|^]: '(?:int|float)'",
        "&, |, ^ and ~ take truth values and whole numbers, and there is a float.",
        "A power is **. Conditions stand in brackets of their own: (a > 0) & (b > 0).",
    ),
    (
        r"for @: '(?:int|float)'|for @: .* and '(?:int|float)'|need to be at least 1D",
        "@ is the matrix product, and a single number is no matrix and no vector.",
        "* multiplies by a number.",
    ),
    (
        r"must be either float or double|Expected a floating point or complex",
        "This function takes floats, and no truth values or whole numbers.",
        ".float() makes floats.",
    ),
    (
        r"not implemented for '(Long|Int|Bool|Byte)'",
        "This function does not take numbers of this kind (Long, Int and Byte are whole numbers).",
        "Compare the order of the arguments with the signature. .float() makes floats.",
    ),
    (
        r"not implemented for '(Float|Double)'",
        "This function does not take floats.",
        "Compare the order of the arguments with the signature. .long() makes whole numbers, a"
        " comparison truth values.",
    ),
    (
        r"not implemented for 'Complex",
        "This function does not take complex numbers.",
        "A power of a negative number can be one, and torch.polar makes them; torch.view_as_real"
        " takes both parts.",
    ),
    (
        r"Integers to negative integer powers",
        "Whole numbers have no negative powers among whole numbers.",
        ".float() makes floats of them.",
    ),
    (
        r"can't be cast to the desired output type",
        "What is written in place keeps its kind of number, and whole numbers hold no floats.",
        "Begin with floats, .float(), or make a new tensor: x = x / 2.",
    ),
    (
        r"(unsupported operand|not supported between) .*"
        r"'(Linear|LayerNorm|Conv2d|Embedding|Dropout|Sequential)'",
        "A layer stands where numbers are needed.",
        "A layer is called, layer(x). Its numbers have names, such as weight of nn.Linear, or p of"
        " nn.Dropout.",
    ),
    (
        r"'(builtin_function_or_method|method|function)'",
        "A function itself stands where its result is needed.",
        "A call has brackets, such as x.mean().",
    ),
    (
        r"cannot unpack non-iterable",
        "Several names are to be filled, and a single thing stands there.",
        "",
    ),
    (
        r"too many values to unpack|not enough values to unpack",
        "What is taken apart there has another number of parts than there are names for them.",
        "",
    ),
    (
        r"must be Tensor, not (?:int|float)|only be called with a Tensor",
        "A function of torch is given a plain number.",
        "math.sqrt, math.exp and ** take numbers; torch's functions take tensors.",
    ),
    (
        r"must be real number, not Tensor|only one element tensors can be conv"
        r"|cannot be converted to Scalar",
        "What takes one number, such as math.exp, float or .item(), is given a whole tensor.",
        "torch.exp and torch.log take tensors; mean() or sum() leaves one number; torch.stack makes"
        " one tensor of a list of tensors.",
    ),
    (
        r"doesn't define __round__",
        "round(…) takes a plain number.",
        "x.round() rounds every number of a tensor.",
    ),
    (
        r"found element of type float|must be int, not float|of ints, ?(?:but got|not) float"
        r"|'float' object cannot be interpreted|float.* as an ind",
        "A size or a place is a float.",
        "/ and math.sqrt give a float even where nothing is left over: //, math.isqrt and int(…)"
        " give whole numbers.",
    ),
    (
        r"slice indices must be integers",
        "A slice, a[begin:end], begins and ends at whole numbers.",
        "/ gives a float even where nothing is left over; // and int(…) give whole numbers.",
    ),
    (
        r"must be tuple of ints, not int",
        "The sizes are needed as a tuple, also where there is one alone.",
        "A tuple of one has a comma: (8,).",
    ),
    (
        r"must be tuple of ints.*Tensor|failed to unpack the object",
        "A size is no whole number: a tensor, or something else, stands there.",
        "Sizes are numbers such as x.shape[0]; of a tensor with one number int(…) makes one.",
    ),
    (
        r"0-d tensor|0-dim tensor",
        "This tensor is a single number, without axes: it has no length and no places.",
        "mean(), sum() and max() without dim leave one number, and so does an index for each axis.",
    ),
    (
        r"object of type '(?:int|float|bool)' has no len",
        "A plain number has no length.",
        "",
    ),
    (
        r"has no len\(\)",
        "This has no length.",
        "Lists, tuples, dicts, texts, tensors and nn.Sequential have one.",
    ),
    (
        r"argument of type '\w+' is not iterable",
        "What stands behind in holds nothing that could be looked for.",
        "Lists, tuples, dicts, sets, texts and tensors do.",
    ),
    (
        r"int\(\) argument must be|float\(\) argument must be",
        "int(…) and float(…) take one number, or a text that is one.",
        "",
    ),
    (
        r"invalid literal for int|could not convert string to float",
        "This text is no number of the kind that is asked for.",
        "float(…) takes a point, int(…) takes none.",
    ),
    (
        r"unsupported format string passed to",
        "A format such as :.2f is for one plain number.",
        "Of a tensor with one number .item() makes one; of several print each, or all without a"
        " format.",
    ),
    (
        r"Unknown format code",
        "This format does not fit the kind of value.",
        ":d is for whole numbers, :f, :g and :% are for numbers, :s is for texts.",
    ),
    (
        r"arguments for format string|not all arguments converted|Replacement index",
        "The text has another number of gaps than there are values for them.",
        "",
    ),
    (
        r"invalid data type 'str'|too many dimensions 'str'",
        "A text stands where numbers are needed.",
        "",
    ),
    # places
    (
        r"tensors used as indices must be|valid indices",
        "What stands in the brackets is no index.",
        "Indices are whole numbers, slices, or tensors of whole numbers or booleans. Of floats that"
        " are places .long() makes whole numbers; of floats that say yes or no, 1 or 0, .bool()"
        " makes booleans.",
    ),
    (
        r"too many indices",
        "More axes are indexed than the tensor has.",
        "Print its shape. A number in the brackets takes its axis away.",
    ),
    (
        r"Expected \(batch_size, seq_length, hidden_dim\)|input must be \(n, seq_length, hidden",
        "The encoder and its blocks take three axes, images, tokens and numbers.",
        "A number in brackets takes its axis away, and squeeze() each of length 1. A mask of two"
        " axes, z[mask], makes one of the two: unflatten(0, (n, -1)) makes two of it again.",
    ),
    (
        r"non-empty (?:TensorList|list of Tensors)|arg is an empty sequence"
        r"|iterable argument is empty|from empty list|from an empty",
        "What this is given is empty.",
        "Print it before this line, and follow what should fill it.",
    ),
    (
        r"input\.numel\(\) == 0|to have non-zero size",
        "The tensor is empty: there is no number to choose.",
        "Print its shape. A mask that is false everywhere chooses nothing.",
    ),
    (
        r"(?:Index tensor must|input and indices should) have the same number of dimensions",
        "The index of gather or scatter has another number of axes than the tensor.",
        "It needs as many, in the same order: unsqueeze adds the missing one, (n, 1) of (n,) or"
        " (n, k, 1) of (n, k), and expand repeats it along that axis where whole rows are chosen.",
    ),
    (
        r"to be no larger (?:size )?than",
        "The index of gather or scatter is longer than what it is applied to, or taken from.",
        "Only along dim it may be longer than the tensor. Print the shapes of all of them.",
    ),
    (
        r"indexing tensors could not be broadcast",
        "x[a, b] takes pairs, each place of a with one of b, and they are not as many.",
        "x[a[:, None], b] takes every place of a with every place of b.",
    ),
    (
        r"Number of indices \(\d+\) should be equal",
        "There must be as many places as there are rows that are put there.",
        BOTH,
    ),
    (
        r"doesn't match the broadcast shape",
        "What is written in place, as by +=, keeps its shape and cannot grow.",
        "Compare the two shapes, and look where the one that is written into was made. Where a"
        " larger result is meant, it is a new tensor.",
    ),
    (
        r"(?:[Tt]ensors|arrays) must have same number of dimensions",
        "Tensors with different numbers of axes are joined.",
        "torch.cat joins along an axis that is there, and the tensors need the same number of axes;"
        " unsqueeze(…) or [None] adds one.",
    ),
    (
        r"cannot be concatenated",
        "torch.cat joins along an axis, and a single number has none.",
        "torch.stack makes a new axis for them.",
    ),
    # numbers of Python
    (
        r"math domain error",
        "The function has no value for this number.",
        "math.sqrt takes no negative numbers, and math.log only positive ones.",
    ),
    (
        r"int too large to convert to float|division result too large",
        "A whole number is too large for a float: floats end near 1.8e308, whole numbers nowhere.",
        "a / b of two whole numbers is computed in whole numbers, and only its result must fit into"
        " a float; so keep floats such as 0.5**n away from it. math.log takes large ones, too.",
    ),
    (
        r"Numerical result out of range|math range error",
        "The result is too large for a float: floats end near 1.8e308.",
        "Whole numbers such as 2**n have no end. Or calculate with logarithms, and take exp of a"
        " difference at last.",
    ),
    (
        r"Overflow when unpacking|int too big to convert|too large to convert to C",
        "A whole number is too large for a tensor, or for C: they hold 64 bits.",
        "Python's own whole numbers have no end: go on with them, until the number is small.",
    ),
    (
        r"integer string conversion",
        "A whole number with thousands of digits is turned into a text, or a text into it.",
        "",
    ),
    (
        r"(?:division|modulo|divmod\(\)) by zero",
        "What stands behind /, // or % is 0.",
        "Print it, and follow where it becomes 0. Say what is right in this case before the line"
        " divides.",
    ),
    (
        r"cannot be raised to a negative power",
        "0 has no negative powers: it would be divided by.",
        "",
    ),
    (
        r"cannot convert float (?:NaN|infinity)",
        "This number is nan or infinite, and no whole number is that.",
        "Print what it is computed from, up to the first that is nan or infinite.",
    ),
    (
        r"[nk] must be a non-negative integer|not defined for negative values",
        "What is counted is a whole number, 0 or more.",
        "",
    ),
    (
        r"could not infer output dtype|mean\(\): .*(Bool|Long)|std and var only support",
        "A mean or a spread of booleans or whole numbers is asked for.",
        "Turn them into floats first, .float().",
    ),
    (
        r"only integer tensors of a single element|only one element tensors",
        "A tensor stands where a number is needed: a tuple or a list is multiplied by it, say, or"
        " has it in its brackets.",
        "torch.autograd.grad gives a tuple: its [0] is the tensor. max(dim=…) gives a pair:"
        " .values are its numbers. Brackets with a tensor in them need a tensor before them.",
    ),
    (
        r"'(?:int|float)' object is not iterable",
        "A number stands where several values are needed.",
        "for k in range(n) counts from 0 to n - 1; max, min, sum and list take a list, or several"
        " values.",
    ),
    (
        r"(?:Subtraction|Negation), the `-` operator,",
        "Truth values cannot be subtracted, and have no sign.",
        "a & ~b is true where a is and b is not; .int() makes numbers of truth values.",
    ),
    (
        r"Boolean value of Tensor with more than one|truth value of an array",
        "One yes or no is asked of many numbers at once.",
        "if, while, and, or and not take a single truth; a comparison of a whole tensor gives one"
        " for each number.",
    ),
    # layers and their shapes
    (
        r"channels must be divisible by groups",
        "groups splits the channels into as many groups, which know nothing of each other.",
        "With groups=1, the default, each number that comes out depends on all channels.",
    ),
    (
        r"expected input\[.*\] to have \d+ channels",
        "What goes into the convolution has another number of channels than its kernel.",
        "It takes (n, channels, h, w). With groups=channels each channel has a kernel of its own.",
    ),
    (
        r"Expected 3D \(unbatched\) or 4D|expected 4D input",
        "This layer takes pictures, (n, channels, h, w).",
        "Print the shape. A picture alone becomes a batch by [None].",
    ),
    (
        r"Kernel size can't be greater|Output size is too small",
        "The window is larger than the picture.",
        "The last two axes must be height and width. Print the shape.",
    ),
    (
        r"expected stride to be a single integer",
        "The kernel has another number of axes than this convolution takes.",
        "conv2d needs (channels out, channels in, h, w).",
    ),
    (
        r"expected bias to be 1-dimensional",
        "The bias needs one number for each channel that comes out.",
        "",
    ),
    (
        r"Expected (?:weight|bias) to be of same shape as normalized_shape",
        "Weight and bias of a norm need a number for each place of the axes that are normalised.",
        "",
    ),
    (
        r"Padding length|Padding size",
        "F.pad takes pairs, from the last axis on: (left, right, top, bottom).",
        "There may be one pair for each axis, and some modes take the last axes alone.",
    ),
    (
        r"same number of spatial dimensions",
        "F.interpolate takes (n, channels, h, w), and a size for each axis after the channels.",
        "Print the shape. x[None] puts an axis in front.",
    ),
    (
        r"Tensors supported \(got",
        "This mode does not go with this number of axes.",
        "Of (n, channels, h, w) F.interpolate knows nearest, bilinear, bicubic and area,"
        " among others.",
    ),
    (
        r"attn_mask is .* but should be",
        "An attention mask has a row for each query, and a column for each key.",
        "",
    ),
    (
        r"Target -?\d+ is out of bounds",
        "A label is as large as the number of classes, or larger, or below 0.",
        "Labels count from 0. Print labels.max(), and the shape of the logits.",
    ),
    (
        r"Expected floating point type for target",
        "A target of the logits' shape holds probabilities, and those are floats.",
        "Numbers of classes have the shape (n,); .float() makes floats of probabilities.",
    ),
    (
        r"expected target dtype",
        "Labels of cross_entropy are whole numbers, each the number of a class.",
        ".long() makes such numbers. Probabilities in their place have the shape of the logits.",
    ),
    (
        r"multi-target not supported|Expected target size|to match target batch_size"
        r"|1D target must have size",
        "Logits and labels do not fit: cross_entropy takes (n, num_classes) and (n,).",
        "Further axes stand behind: (n, num_classes, k) with (n, k). flatten(0, 1) of both puts k"
        " to n.",
    ),
    (
        r"elements of (?:input|target) should be between 0 and 1|p_in >= 0",
        "Probabilities lie between 0 and 1, and there are other numbers.",
        "Of logits sigmoid makes probabilities, and with_logits in a loss's name takes logits.",
    ),
    (
        r"must be in the range \[0, 1\]",
        "A share is a number between 0 and 1.",
        "95 % is 0.95.",
    ),
    (
        r"probability tensor contains",
        "Some of these probabilities are negative, infinite or nan.",
        "Scores become probabilities by softmax.",
    ),
    (
        r"one_hot is only applicable|Class values must be",
        "one_hot takes numbers of classes: whole ones, from 0 to num_classes - 1.",
        "",
    ),
    (
        r"selected (?:index|number) k out of range",
        "More numbers are asked for than there are along this axis, or fewer than one.",
        "Print the shape. topk goes along the last axis, if dim says nothing else.",
    ),
    (
        r"out of bounds|(?:index|\d) (?:is )?out of range|exceeds dimension size",
        "There is no such place.",
        "Places count from 0 to the length - 1 (gather and scatter take no negative ones). Print"
        " the shape, and the number.",
    ),
    (
        r"maximum size for tensor at dimension",
        "The window of unfold is larger than its axis.",
        "unfold(dim, size, step) goes along one axis, and begins to count them at 0.",
    ),
    # calls
    (
        r"^\w+\(\) takes no arguments$",
        "This class has no __init__ of its own that takes something.",
        "Is it spelt so, __init__ with two underscores on each side?",
    ),
    (
        r"missing \d+ required",
        "A function is called without what it needs.",
        CALL,
    ),
    (
        r"multiple values for",
        "One argument is given twice, by its place and by its name.",
        CALL,
    ),
    (
        r"^transpose\(\) takes 2",
        "transpose exchanges two axes.",
        "permute takes all of them, in their new order.",
    ),
    (
        r"(?:reshape|view|expand|repeat|permute)\(\) takes \d+ positional arguments? but",
        "The sizes are not what it takes: whole numbers one by one, or all in one tuple.",
        "A star takes a tuple apart: x.reshape(*x.shape[:2], 3, 4). / gives floats, // whole"
        " numbers.",
    ),
    (
        r"takes .* positional arguments? but|unexpected keyword|takes at most \d+ arg"
        r"|expected (?:at most |at least )?\d+ arguments?, got",
        "A function is given what it does not take.",
        CALL,
    ),
    (
        r"argument after \*\* must|keywords must be",
        "** takes a dict apart whose keys are texts.",
        "",
    ),
    (
        r"argument after \* must",
        "* takes a list, a tuple or another row of values apart.",
        "",
    ),
    # modules
    (
        r"state_dict to be dict-like",
        "load_state_dict takes a dict, from names to tensors.",
        "Another module's is other.state_dict(); torch.load gives what is in a file.",
    ),
    (
        r"loading state_dict",
        "The weights do not fit the module: names or shapes are others.",
        "Print the names and shapes of both: state_dict() has them.",
    ),
    (
        r'Module \[ModuleDict\] is missing the required "forward"',
        "nn.ModuleDict holds modules under names. It has no forward, and is not called itself.",
        'Call what it holds: layers["name"](x), or each of layers.values() in a loop.',
    ),
    (
        r'Module \[ModuleList\] is missing the required "forward"',
        "nn.ModuleList holds modules. It has no forward, and is not called itself.",
        "Call what it holds, one after the other, in a loop, or make an nn.Sequential of it.",
    ),
    (
        r'missing the required "forward"',
        "This module is called and has no forward.",
        "Is it spelt so, and does it stand in the class, indented as __init__ is?",
    ),
    (
        r"before Module.__init__\(\) call",
        "nn.Module is not set up yet.",
        "A module's __init__ begins with that of its parent: super().__init__(…), with what the"
        " parent's takes. nn.Module's takes nothing.",
    ),
    (
        r"cannot assign '.*' as parameter",
        "Only an nn.Parameter can take the place of a parameter.",
        "One of the same shape is filled in place: nn.init, or copy_ under torch.no_grad(). For"
        " another shape, or a new parameter: nn.Parameter(…).",
    ),
    (
        r"cannot assign '.*' as child module",
        "Only a module can take the place of a part of a module.",
        "What should be another kind of thing needs another name.",
    ),
    (
        r"object to buffer",
        "A buffer is a tensor.",
        "torch.tensor(…) makes one of numbers.",
    ),
    (
        r"attribute '.*' already exists",
        "The module has something of this name already.",
        "A buffer or a parameter of a name that is taken is registered after del module.name;"
        " a parameter that is there is filled in place, under torch.no_grad().",
    ),
    (
        r"should be called with an iterable",
        "A list of modules is needed here.",
        "As in nn.ModuleList([first, second]).",
    ),
    (
        r"Fan in and fan out",
        "This start value is for matrices: it counts what goes in and what comes out.",
        "A bias or a norm's weight has one axis, and needs another start, such as nn.init.zeros_.",
    ),
    # optimizers
    (
        r"param groups should be with/without names",
        "One group holds parameters, and another one pairs of a name and a parameter, which"
        " named_parameters() gives.",
        "Take the pairs apart: [p for name, p in model.named_parameters() if …].",
    ),
    (
        r"more than one parameter group",
        "The same parameter is in two groups of the optimizer.",
        "Each belongs to one: take it out of the group whose rate it should not have.",
    ),
    (
        r"empty parameter list",
        "The optimizer is given nothing: there is nothing in this list.",
        "What is to learn must be there, and ask for a gradient, before the optimizer is made.",
    ),
    (
        r"params argument given to the optimizer",
        "The optimizer takes a list of parameters, and here stands a single one.",
        "[w] is a list of one.",
    ),
    (
        r"can only optimize Tensors",
        "Something that is no tensor is given to the optimizer.",
        "parameters() gives the parameters; named_parameters() gives pairs of name and parameter.",
    ),
    (
        r"can't optimize a non-leaf",
        "The optimizer is given a tensor that was computed, and none that is a parameter.",
        "Hand it what is stored in the module, as model.parameters() does.",
    ),
    (
        r"don't multiply up to",
        "The sizes asked for do not multiply to the length of the axis that is split.",
        "Print the shape before it, and multiply the sizes.",
    ),
    # gradients
    (
        r"One of the differentiated Tensors does not require grad",
        "A gradient is asked with respect to a tensor that does not ask for one.",
        "x.requires_grad_() comes before the loss is computed from x.",
    ),
    (
        r"not have been used in the graph",
        "What is differentiated was not computed from this tensor.",
        "It must be this very tensor from which it is computed: a copy, .detach(), or a tensor made"
        " of its numbers is another one.",
    ),
    (
        r"modified by an inplace operation",
        "A tensor was written over after something had been computed from it, and the gradient"
        " still needs it as it was.",
        "Make a new tensor, x = x + … in place of x += … and x[…] = …; change parameters, as"
        " optimizer.step() does, after the backward.",
    ),
    (
        r"numpy\(\) on Tensor that requires grad",
        "NumPy knows nothing of gradients, and this tensor requires one.",
        "Stay in torch, which has the same functions, and a gradient flows through them. .detach()"
        " would cut it off: that is for numbers that are only shown or counted.",
    ),
    (
        r"[Oo]nly Tensors of floating point",
        "Only floats have gradients.",
        ".float() makes floats, and torch.tensor([1.0, 2.0]) begins with them.",
    ),
    (
        r"change requires_grad flags of leaf",
        "This tensor was computed, and asks for a gradient because something before it does.",
        "The flag belongs to parameters; x.detach() has the same numbers without a graph.",
    ),
    (
        r"support the deepcopy protocol",
        "A tensor that was computed, with its graph, cannot be copied deeply.",
        "x.detach().clone() copies its numbers.",
    ),
    (
        r"Inference tensors",
        "What is made under torch.inference_mode() can never take part in a gradient.",
        "torch.no_grad() computes without a graph, too, and its tensors can.",
    ),
    (
        r"returned an incorrect number of gradients",
        "backward of your own Function returns one gradient for each input of its forward.",
        "None stands for an input that needs none.",
    ),
    (
        r"returned an invalid gradient",
        "A gradient has the shape of what it belongs to.",
        BOTH,
    ),
    (
        r"does not require grad|hook on a tensor that doesn't require gradient",
        "Nothing that needs a gradient leads to this number.",
        "Look for .detach(), .item(), torch.no_grad(), requires_grad set to False, and buffers in"
        " the place of parameters.",
    ),
    (
        r"backward through the graph a second time",
        "The graph was used up by an earlier backward() or autograd.grad().",
        "For each of them compute anew what it starts from, and keep no tensor of the step before;"
        " several gradients of one graph need retain_graph=True, or one call for their sum.",
    ),
    (
        r"multi_dot\(\): expected at least 2 tensors",
        "multi_dot multiplies two matrices or more, and was given fewer.",
        "A loop that begins with the first one, or with torch.eye(…), works for any number.",
    ),
    (
        r"grad can be implicitly created only for scalar",
        "The gradient is asked of several numbers at once.",
        "Make one number of them first: of the sum, each picture gets the gradient of its own.",
    ),
    # axes and masks
    (
        r"masked_fill_? only supports boolean masks",
        "The mask of masked_fill holds truth values: True where the value is written.",
        "A comparison makes one, such as mask == 0 or mask > 0.",
    ),
    (
        r"only supports a 0-dimensional value",
        "masked_fill writes one number.",
        "torch.where(mask, a, b) takes each number from one of two tensors.",
    ),
    (
        r"shape of the mask",
        "The mask has not the shape of what it chooses from.",
        "A mask has one boolean for each entry of the first axes.",
    ),
    (
        r"view size is not compatible",
        "view joins axes only where their numbers lie in this order in memory; after transpose,"
        " permute or expand they do not.",
        "Say of each axis what it stands for: those that become one must be neighbours, in the"
        " right order. If they are, reshape copies them; if not, it also runs, and numbers stand in"
        " the wrong places.",
    ),
    (
        r"only one dimension can be inferred",
        "-1 stands for one size alone, which follows from the others.",
        "Write the other sizes out.",
    ),
    (
        r"start_dim cannot come after end_dim",
        "flatten(start, end) makes one axis of those from start to end, the end included.",
        "",
    ),
    (
        r"number of sizes provided \(\d+\) must be greater|Number of dimensions of repeat dims",
        "expand and repeat need a number for every axis that the tensor has, or more.",
        "New axes come in front. In expand, -1 leaves an axis as it is; in repeat, 1 does.",
    ),
    (
        r"isn't allowed in a leading, non-existing",
        "In expand, -1 leaves an axis as it is, and a new one in front has no length yet.",
        "Write its length out.",
    ),
    (
        r"batch\d must be a 3D",
        "torch.bmm takes (n, rows, columns) on both sides.",
        "@ takes any number of axes in front.",
    ),
    (
        r"1D tensors expected|must be a matrix, got|matrix @ vector expected|Expected 1-D argument"
        r"|expected a matrix, but got|t\(\) expects a tensor with <= 2|at least 2 dimensions"
        r"|Supports 1D or 2D",
        "This function takes another number of axes.",
        "Print the shape. @ multiplies the last two axes, whatever stands in front, and"
        " .transpose(-2, -1) exchanges them.",
    ),
    (
        r"must be batches of square matrices",
        "This is for square matrices: as many rows as columns.",
        "",
    ),
    (
        r"input matrix is singular",
        "The matrix has no inverse: one of its rows follows from the others.",
        "",
    ),
    (
        r"output subscript \w+ does not appear",
        "A letter of the result stands for no axis of the tensors.",
        "",
    ),
    (
        r"appears more than once in the output",
        "Each axis of the result needs a letter of its own.",
        "Rows and columns of one tensor with itself are two letters: nid,njd->nij.",
    ),
    (
        r"(?:fewer|more) operands were provided",
        "The equation names another number of tensors, between its commas, than are given.",
        "",
    ),
    (
        r"invalid subscript given",
        "In the equation letters stand for axes, beside commas, -> and ...",
        "",
    ),
    (
        r"step must be greater than zero",
        "A slice of a tensor goes forwards only.",
        "x.flip(0) turns axis 0 round.",
    ),
    (
        r"step cannot be zero|step must be nonzero|arg 3 must not be zero",
        "A step of 0 never arrives.",
        "",
    ),
    (
        r"expected sequence of length",
        "Rows of different lengths make no tensor.",
        "",
    ),
    (
        r"Could not infer dtype of",
        "A tensor holds numbers, and here stands something else.",
        "",
    ),
    (
        r"data must be a sequence",
        "torch.Tensor(…) takes sizes, or a list of numbers.",
        "torch.tensor(…), written small, makes a tensor of one number, too.",
    ),
    (
        r"size must be non-negative|negative dimension",
        "A size is below 0.",
        "",
    ),
    (
        r"start of device string|Invalid device string",
        "This text is the name of no device, such as cpu or cuda.",
        "A kind of number is no text: x.to(torch.float32), or x.float().",
    ),
    (
        r"NVIDIA driver|not compiled with CUDA",
        "There is no GPU that PyTorch could use here.",
        "x.to(y.device) brings x to where y is, whatever that is.",
    ),
    (
        r"on the same device|not on the expected device",
        "Two tensors are on different devices.",
        "x.to(y.device) brings x to where y is.",
    ),
    (
        r"Expected tensor for argument #1 'indices'|Expected dtype int",
        "Places and labels must be whole numbers.",
        ".long() makes whole numbers of floats.",
    ),
    (
        r"Expected tensor for argument|expected scalar type|same dtype|dtypes? match"
        r"|Input type \(|to be equal to src.dtype",
        "Two kinds of numbers meet, such as float32 and float64, or whole numbers and floats.",
        "Print .dtype of both. x.to(y.dtype) makes x like y; a new tensor takes dtype=y.dtype.",
    ),
    # the rest of Python
    (
        r"object is not iterable",
        "What stands there holds nothing that can be gone through.",
        "A list, a tuple, a dict or a tensor does; a module has .parameters() and .children(), an"
        " optimizer .param_groups.",
    ),
    (
        r"^type '\w+' is not subscriptable",
        "The brackets [ ] stand behind a class.",
        "A class is called, with round brackets, to make one of its kind.",
    ),
    (
        r"object is not subscriptable",
        "The brackets [ ] stand behind something that has no places.",
        "Lists, tuples, dicts, tensors and nn.Sequential have places.",
    ),
    (
        r"referenced before assignment|cannot access (local|free)",
        "The function sets this name somewhere, and it was not set when this line ran.",
        "Is the line that sets it further down, or on a path that was not taken? Or is another name"
        " meant?",
    ),
    (
        r"codec can't decode byte",
        "What is read here is no text.",
        'A file that torch.save wrote is read by torch.load; open(file, "rb") gives bytes.',
    ),
    (
        r"not supported between instances of .*'(functools\.partial|type|function|method)'",
        "A class or a function stands where a number is needed.",
        "Is it called, with ( )? If it was handed on, compare the order of the arguments with the"
        " signature.",
    ),
    (
        r"not supported between instances",
        "These two cannot be put in an order.",
        "sorted, max and min take key=…, a function that gives a number for each.",
    ),
    (
        r"is not in list|x not in list",
        "The list has no such member.",
        'Kinds count, too: 2 is not "2".',
    ),
    (
        r"shifts and dimensions must align",
        "roll is given several shifts, and another number of axes.",
        "Each shift needs its axis: roll((a, b), dims=(1, 2)). Without dims all axes are taken for"
        " one line, which has one shift.",
    ),
    (
        r"forward pre-hook must return None or a tuple of \(new_args, new_kwargs\)",
        "A pre-hook that is registered with with_kwargs=True returns nothing, or both in a tuple.",
        "return args, kwargs gives both back; args may stay as they came.",
    ),
    (
        r"zip\(\) argument \d+ is (?:longer|shorter)",
        "zip with strict=True goes through several lists together, and here their lengths differ.",
        "Lists that may have different lengths have no pairs: make what you need, such as a mean,"
        " of each list by itself.",
    ),
    (
        r"changed size during iteration",
        "A dict or a set is changed while a loop goes through it.",
        "for key in list(…) goes through a copy.",
    ),
    (
        r"is not writable|has no setter",
        "This follows from the object and cannot be set.",
        "",
    ),
    (
        r"No module named|cannot import name",
        "Python finds no such name to import.",
        "Is it spelt so, and installed where this notebook runs?",
    ),
    (
        r"No such file or directory",
        "There is no such file, as seen from the folder in which Python runs.",
        "Path.cwd() is that folder. A path that begins with / does not depend on it.",
    ),
)
