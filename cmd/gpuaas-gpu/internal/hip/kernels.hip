// The word at address a is a * multiply + add: a pattern that tells every
// address from every other with an odd multiplier, and zeros with 0 and 0.
//
// However many threads there are, together they take every word of the range:
// neighbours take neighbouring words.
typedef unsigned long long word;

extern "C" __global__ void fill(word begin, word end, word multiply, word add, word *differing)
{
	word stride = (word)gridDim.x * blockDim.x * sizeof(word);
	word first = begin + ((word)blockIdx.x * blockDim.x + threadIdx.x) * sizeof(word);
	for (word at = first; at < end; at += stride)
		*(word *)at = at * multiply + add;
}

extern "C" __global__ void count(word begin, word end, word multiply, word add, word *differing)
{
	word stride = (word)gridDim.x * blockDim.x * sizeof(word);
	word first = begin + ((word)blockIdx.x * blockDim.x + threadIdx.x) * sizeof(word);
	word found = 0;
	for (word at = first; at < end; at += stride)
		if (*(const word *)at != at * multiply + add)
			found++;
	if (found != 0)
		atomicAdd(differing, found);
}
