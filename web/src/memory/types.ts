/** The shapes of the room's memory on HTTP (docs/http.md, docs/memory.md). */

/** Where a memory comes from. `event`: a number in the timeline; `moment`: a place in the log; `message`: an id. */
export interface Source {
  type: string;
  event: number | null;
  message: string | null;
  task: number | null;
  moment: number;
}

export interface Feedback {
  useful: number;
  useless: number;
  mine: boolean | null;
}

export interface Memory {
  memory_type: "episodic" | "procedural" | "knowledge";
  memory_id: string;
  content: string;
  relevance: number;
  why: { words?: string[]; neighbour?: string[]; author?: string | null };
  /** Words of the content, small, that match. */
  marks: string[];
  source: Source | null;
  /** null where nobody can say: of skills and knowledge. */
  feedback: Feedback | null;
  /** It has no word of the question, and was said next to one that has. */
  beside: boolean;
  /** Of knowledge: that of the memory of the same event. */
  number?: number | null;
  event_type?: string;
  summary?: string;
  outcome?: string | null;
  lessons?: string[];
  tags?: string[];
  agent_id?: string;
  created_at?: string;
  /** When it was last said, and how often besides. */
  updated_at?: string;
  merged?: number;
  imported_by?: string | null;
  knowledge_type?: string;
  rationale?: string | null;
  /** false: it says only what was replaced or contradicted since. */
  is_valid?: boolean;
  /** What did that: `r14`, or the beginning of an id of knowledge. */
  replaced_by?: string | null;
  /** A line of the transcript that proves nobody said it. */
  unverified?: boolean;
}

export interface Choices {
  agents: string[];
  kinds: string[];
  tags: string[];
}

export interface Found {
  memories: Memory[];
  more: boolean;
  /** The number that was asked for, where that memory is forgotten. */
  forgotten: string | null;
  choices: Choices;
}

/** What an answer's agent was given. `text` null: forgotten since, or not for the reader. */
export interface GivenMemory {
  id: string;
  memory_type: string;
  reference: string;
  number: number | null;
  author: string | null;
  at: string | null;
  event_id: string | null;
  message: string | null;
  source: Source | null;
  forgotten: boolean;
  text: string | null;
  outcome: string | null;
  /** false: nothing that was decided or stated in it holds any more. */
  is_valid?: boolean;
  replaced_by?: string | null;
  unverified?: boolean;
  tags: string[];
  feedback: Feedback | null;
}

export interface KnowledgeEntry {
  id: string;
  knowledge_type: string;
  content: string;
  source_agent: string;
  source_event: string;
  number?: number | null;
  replaced_by?: string | null;
  unverified?: boolean;
  topics: string[];
  related_files: string[];
  rationale: string | null;
  alternatives: string[];
  severity: string | null;
  created_at: string;
  valid_from: string;
  valid_to: string | null;
  is_valid: boolean;
  extracted_by: string;
  visibility: string;
  visible_to: string[];
  distance?: number;
}

export interface KnowledgeRelation {
  source: string;
  relation: string;
  target: string;
}

export interface Knowledge {
  entries: KnowledgeEntry[];
  relations: KnowledgeRelation[];
  more: boolean;
}
